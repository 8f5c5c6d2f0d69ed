// mxcheck completion and mxcheck man, which have what --help has.

#include <map>
#include <regex>
#include <set>

#include "numerics/text.h"
#include "tests/tools/command.h"
#include "tests/tools/shell.h"

namespace mxcheck {
namespace {

using namespace test;

const std::vector<std::string> kPlaces{"",
                                       "gate",
                                       "merge",
                                       "replay",
                                       "quantize",
                                       "dequantize",
                                       "mma",
                                       "matmul",
                                       "identify",
                                       "scale",
                                       "formats",
                                       "recipes",
                                       "route",
                                       "layer",
                                       "golden",
                                       "parity",
                                       "golden make",
                                       "golden show",
                                       "golden verify",
                                       "golden suites",
                                       "parity run",
                                       "parity audit",
                                       "parity compare",
                                       "parity verify",
                                       "parity corpus",
                                       "parity campaign",
                                       "completion",
                                       "man"};

class Terminal : public ToolTest {
 protected:
  // "--long" and "-s" of the lines of --help that describe an option.
  std::set<std::string> options_of(const std::string& place) {
    const std::string help = expect_output(place + " --help", 0).out;
    std::set<std::string> options;
    static const std::regex pattern("(?:^|\n)  (-[-a-z0-9A-Z,]+)");
    for (std::sregex_iterator i(help.begin(), help.end(), pattern), end; i != end; ++i) {
      const std::string names = (*i)[1];
      for (const std::string_view name : split(names, ',')) options.emplace(name);
    }
    return options;
  }

  // The words that bash offers at the end of a command line.
  std::set<std::string> offered(const std::string& line) {
    const std::string script = "words=(" + line +
                               "); COMP_WORDS=(\"${words[@]}\"); COMP_CWORD=$((${#words[@]} - 1)); " + "source '" +
                               (dir / "bash") + "'; _mxcheck; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const ShellAnswer answer = run_shell("bash -uc " + quote(script) + " 2>&1");
    EXPECT_EQ(answer.code, 0) << line << "\n" << answer.out;
    std::set<std::string> words;
    for (const std::string_view word : split(answer.out, '\n')) words.emplace(word);
    words.erase("");
    return words;
  }

  static std::string quote(std::string text) {
    for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
    return "'" + text + "'";
  }

  void write_script(const std::string& shell) { write_file(dir / shell, expect_output("completion " + shell, 0).out); }
};

TEST_F(Terminal, bash_offers_every_option_that_help_prints_and_no_other) {
  write_script("bash");
  for (const std::string& place : kPlaces) {
    std::set<std::string> words;
    for (const std::string& word : offered("mxcheck " + place + " -")) words.insert(word);
    EXPECT_EQ(words, options_of(place)) << place;
    EXPECT_GE(words.size(), 2U) << place;
  }
}

TEST_F(Terminal, bash_offers_subcommands_and_the_words_of_an_option_and_leaves_files_to_the_shell) {
  write_script("bash");
  EXPECT_EQ(offered("mxcheck ga"), (std::set<std::string>{"gate"}));
  EXPECT_EQ(offered("mxcheck golden v"), (std::set<std::string>{"verify"}));
  EXPECT_EQ(offered("mxcheck gate --seed 7 --suite ''"), (std::set<std::string>{"quick", "full", "exhaustive"}));
  EXPECT_EQ(offered("mxcheck quantize x.npy --nan p"), (std::set<std::string>{"propagate"}));
  EXPECT_EQ(offered("mxcheck quantize x.npy --format e5"), (std::set<std::string>{"e5m2", "e5m6"}));
  EXPECT_EQ(offered("mxcheck completion ''").count("fish"), 1U);
  EXPECT_EQ(offered("mxcheck gate --junit ''"), (std::set<std::string>{})) << "a file";
  EXPECT_EQ(offered("mxcheck gate --candidate sm90"),
            (std::set<std::string>{"sm90", "sm90_gemm", "sm90_route", "sm90_layer", "sm90_moe", "sm90_nvfp4"}));
}

TEST_F(Terminal, zsh_and_fish_read_their_scripts_and_have_every_option) {
  std::map<std::string, std::string> text;
  for (const std::string shell : {"zsh", "fish"}) {
    write_script(shell);
    text[shell] = read_file(dir / shell);
    if (run_shell("command -v " + shell).code != 0) continue;
    const ShellAnswer answer = run_shell(shell + " -n " + (dir / shell) + " 2>&1");
    EXPECT_EQ(answer.code, 0) << answer.out;
  }
  for (const std::string& place : kPlaces) {
    for (const std::string& option : options_of(place)) {
      expect_contains(text["zsh"], "'" + option + ":");
      expect_contains(text["fish"],
                      option.starts_with("--") ? " -l " + option.substr(2) + " " : " -s " + option.substr(1));
    }
  }
}

TEST_F(Terminal, fish_offers_what_bash_does) {
  if (run_shell("command -v fish").code != 0) GTEST_SKIP() << "no fish";
  write_script("fish");
  const auto says = [&](const std::string& line) {
    return run_shell("HOME=" + dir.path() + " fish --no-config -c " +
                     quote("source " + (dir / "fish") + "; complete -C " + quote(line)))
        .out;
  };
  expect_contains(says("mxcheck ga"), "gate\tCompare a kernel library");
  expect_contains(says("mxcheck golden ver"), "verify\t");
  expect_contains(says("mxcheck gate --suite qu"), "quick\t");
  expect_contains(says("mxcheck quantize --roun"), "--rounding\t");
  EXPECT_EQ(says("mxcheck formats --roun"), "");
}

TEST_F(Terminal, the_manual_page_has_every_subcommand_and_option_and_no_fault_of_roff) {
  const std::string page = expect_output("man", 0, {".TH MXCHECK 1 ", ".SH \"EXIT STATUS\"", "\n\\fB70\\fR\n"}).out;
  write_file(dir / "mxcheck.1", page);
  for (const std::string& place : kPlaces) {
    if (!place.empty()) expect_contains(page, ".SH \"mxcheck " + place + "\"\n");
    for (const std::string& option : options_of(place)) {
      expect_contains(page, std::regex_replace(option, std::regex("-"), "\\-"));
    }
  }
  if (run_shell("command -v groff").code != 0) GTEST_SKIP() << "no groff";
  const ShellAnswer answer = run_shell("groff -man -ww -z " + (dir / "mxcheck.1") + " 2>&1");
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.out, "");
}

TEST_F(Terminal, help_of_every_subcommand_has_its_exit_codes) {
  for (const std::string& place : kPlaces) {
    const std::string help = expect_output(place + " --help", 0).out;
    const std::size_t at = help.find("\nExit codes:\n  0    ");
    ASSERT_NE(at, std::string::npos) << place;
    EXPECT_EQ(help.find("Exit codes", at + 2), std::string::npos) << place << " says it twice";
    for (const char* code : {"\n  2    ", "\n  3    ", "\n  70   "}) expect_contains(help.substr(at), code);
  }
  for (const char* code : {"0", "1", "2", "3", "4", "5", "6", "70"})
    expect_contains(mxcheck("--help").out, "\n  " + std::string(code) + " ");
  expect_contains(mxcheck("gate --help").out, "\n  6    the candidate crashed or hung\n");
  expect_contains(mxcheck("golden verify --help").out, "\n  5    a golden that is missing");
  expect_contains(mxcheck("parity run --help").out, "\n  130  stopped by Ctrl-C\n");
}

TEST_F(Terminal, refuses_other_shells_and_a_full_disk) {
  expect_refused(2, "SHELL: bsh not in {bash,zsh,fish}; did you mean 'bash'?", "completion bsh");
  expect_refused(2, "SHELL is required", "completion");
  expect_refused(2, "not expected: x", "man x");
  for (const char* arguments : {"completion bash", "completion fish", "man"})
    expect_refused(3, "standard output cannot be written", std::string(arguments) + " > /dev/full");
}

}  // namespace
}  // namespace mxcheck
