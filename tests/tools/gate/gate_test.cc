// mxcheck gate as a user meets it: exit codes, refusals, files, signals.

#include <unistd.h>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "properties/gate/gate.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr const char* kToy = "gate --candidate '" MXCHECK_TOY "' ";
constexpr const char* kQuantize = "--only quantize_equals_the_reference --seed 7 --cases 60 ";

std::string as(const char* mode) { return "TOY=" + std::string(mode) + " "; }

class Gate : public ToolTest {
 protected:
  // The toy in a mode; `before` is a shell assignment, so that `exec` sees it.
  Answer toy(const char* mode, const std::string& arguments) {
    return mxcheck(kToy + arguments, "export " + as(mode) + "; ");
  }
  void expect_toy_refused(int code, const std::string& text, const char* mode, const std::string& arguments) {
    expect_refused(code, text, kToy + arguments, "export " + as(mode) + "; ");
  }
};

TEST_F(Gate, tells_where_the_time_went_when_asked) {
  const Answer text = toy("right", std::string(kQuantize) + "--timings");
  EXPECT_EQ(text.code, 0) << text.err;
  expect_contains(text.out, {"\nwhere the time went: 1 job, ", "\n  together "});
  EXPECT_TRUE(std::regex_search(
      text.out, std::regex("statements that took longest +10\\^6 work\n +[0-9.]+ .* quantize_equals_")));
  const Answer json = toy("right", std::string(kQuantize) + "--timings --json");
  expect_contains(json.err, "where the time went");
  EXPECT_EQ(nlohmann::json::parse(json.out)["exit_code"], 0);
  expect_toy_refused(2, "--timings belong to a suite", "right", "--timings --soak 0.01");
}

TEST_F(Gate, exits_with_0_when_every_statement_held) {
  const Answer a = toy("right", kQuantize);
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_EQ(a.err, "");
  expect_contains(
      a.out, {"seed 7", "held          quantize_equals_the_reference", "exit code 0: every statement that ran held"});
  EXPECT_TRUE(dir.names().empty());
}

TEST_F(Gate, exits_with_1_and_a_counterexample_that_reproduces) {
  const Answer first = toy("column_33_is_wrong", kQuantize);
  EXPECT_EQ(first.code, 1) << first.err;
  expect_contains(first.out, "exit code 1: there is a counterexample");
  std::smatch line;
  ASSERT_TRUE(std::regex_search(first.out, line, std::regex("  again     mxcheck (gate .*)\n"))) << first.out;
  const Answer again = expect_output(line[1].str(), 1, {}, "export " + as("column_33_is_wrong") + "; ");
  const auto finding = [](const std::string& text) {
    const std::size_t from = text.find("  found     ");
    return text.substr(from, text.find('\n', text.find("  case ")) - from);
  };
  EXPECT_EQ(finding(again.out), finding(first.out));
  expect_contains(finding(first.out), "rows=1 cols=34");
  EXPECT_EQ(mxcheck(line[1].str(), "export " + as("right") + "; ").code, 0);  // mended
}

TEST_F(Gate, a_failure_that_depends_on_state_reproduces_by_its_command) {
  for (const char* mode : {"wrong_after_a_refusal,no_experts", "wrong_from_call_5", "wrong_after_256_columns"}) {
    const Answer first = toy(mode, std::string(kQuantize) + "--save ''");
    EXPECT_EQ(first.code, 1) << mode << first.err;
    std::smatch line;
    ASSERT_TRUE(std::regex_search(first.out, line, std::regex("  again     mxcheck (gate .* --after .*)\n")))
        << first.out;
    EXPECT_EQ(mxcheck(line[1].str() + " --save ''", "export " + as(mode) + "; ").code, 1) << line[1].str();
    const std::string alone = std::regex_replace(line[1].str(), std::regex(" --after .*"), "");
    EXPECT_EQ(mxcheck(alone, "export " + as(mode) + "; ").code, 0) << alone;
  }
}

TEST_F(Gate, soaks_for_a_time_and_says_what_that_shows) {
  const Answer a = toy("right", "--soak 0.01 --seed 7 --junit r.xml");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_TRUE(std::regex_search(a.out, std::regex("no failure in [0-9]+ calls: below 3/n = [0-9.e-]+ a call at 95 %")))
      << a.out;
  expect_contains(read_file(dir / "r.xml"), "<property name=\"soak_calls\"");
  const Answer j = toy("right", "--soak 0.01 --json");
  EXPECT_GT(nlohmann::json::parse(j.out)["soak"]["calls"], 100);
  const Answer wrong = toy("one_call_in_500_is_wrong", "--soak 0.5 --fail-fast --save ''");
  EXPECT_EQ(wrong.code, 1) << wrong.out;
  expect_contains(wrong.out, "failures: one in ");
}

TEST_F(Gate, exits_with_2_when_it_was_asked_wrongly) {
  using Row = std::tuple<std::string, std::string>;
  for (const auto& [arguments, text] :
       {Row{"--only nothing_like_it", "--only 'nothing_like_it' selects no statement"},
        Row{"--only ''", "selects no statement"},
        Row{"--suite huge", "unknown suite 'huge'; known are quick, full, exhaustive"},
        Row{"--seed x", "--seed 'x' is not a number"},
        Row{"--seed=-1", "--seed '-1' is not a number"},
        Row{"--seed ' -1'", "is not a number"},
        Row{"--seed 7x", "--seed '7x' is not a number"},
        Row{"--seed 99999999999999999999", "is not a number"},
        Row{"--cases 0", "--cases"},
        Row{"--cases many", "--cases"},
        Row{"--time-limit 0", "--time-limit must be from"},
        Row{"--time-limit nan", "--time-limit must be from"},
        Row{"--time-limit=-3", "--time-limit must be from"},
        Row{"--memory-limit nan", "--memory-limit must be 0 or from"},
        Row{"--memory-limit 0.01", "--memory-limit must be 0 or from"},
        Row{"--reproduce nonsense", "--reproduce takes 'STATEMENT: CASE'"},
        Row{"--reproduce 'quantize_equals_the_reference: rows=x'", "a case without op="},
        Row{"--reproduce 'no_statement: op=quantize'", "no statement 'no_statement'"},
        Row{"--reproduce 'quantize_equals_the_reference: op=quantize format=e4m3'", "the case lacks recipe=, block="},
        Row{"--soak x", "--soak"},
        Row{"--soak=", "--soak"},
        Row{"--soak 0", "--soak must be from 0.001 to 10080 minutes"},
        Row{"--soak -1", "--soak must be from"},
        Row{"--soak nan", "--soak must be from"},
        Row{"--soak 1e9", "--soak must be from"},
        Row{"--soak 1 --record x.h5", "for --record to keep"},
        Row{"--soak 1 --reproduce 'a: b'", "one of the two"},
        Row{"--soak 1 --suite full", "covers no domain"},
        Row{"--soak 1 --cases 5", "covers no domain"},
        Row{"--after 'op=quantize'", "--after goes with --reproduce"},
        Row{"--verdict-apart", "--verdict-apart replays what --record FILE keeps"},
        Row{"--verdict-apart --record x.h5 --json", "prints two reports"},
        Row{"--junit /nowhere/at/all.xml", "/nowhere/at/all.xml"},
        Row{"--junit .", "."},
        Row{"--html /nowhere/at/all.html", "/nowhere/at/all.html"},
        Row{"--html .", "."},
        Row{"--html ''", "--html"},
        Row{"--surprise", "--surprise"}}) {
    expect_toy_refused(2, text, "right", arguments);
  }
}

TEST_F(Gate, exits_with_2_when_the_candidate_is_none) {
  write_file(dir / "text.so", "no library");
  expect_refused(2, "candidate ./none.so does not exist", "gate --candidate ./none.so");
  expect_refused(2, "no candidate named 'gpu9'; searched 7 folders beside mxcheck", "gate --candidate gpu9");
  expect_refused(2, "cannot be loaded", "gate --candidate ./text.so");
  expect_refused(2, "has no function mxcheck_candidate", "gate --candidate '" MXCHECK_NO_CANDIDATE "'");
  expect_toy_refused(2, "speaks interface version 99", "other_version", "");
  expect_toy_refused(2, "crashed while it was loaded", "crashes_on_load", "");
}

TEST_F(Gate, exits_with_3_when_the_machine_lacks_what_the_candidate_wants) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // where there is a driver
  expect_toy_refused(3, "needs a CUDA device", "wants_cuda", "");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(Gate, exits_with_4_when_nothing_was_checked) {
  const Answer a = toy("supports_nothing", kQuantize);
  EXPECT_EQ(a.code, 4) << a.err;
  expect_contains(a.out, "exit code 4: inconclusive");
}

TEST_F(Gate, exits_with_6_when_the_candidate_crashes_or_hangs) {
  const Answer crash = toy("crashes", std::string(kQuantize) + "--junit r.xml");
  EXPECT_EQ(crash.code, 6) << crash.err;
  expect_contains(crash.out, "died (signal 11");
  expect_contains(read_file(dir / "r.xml"), "<failure type=\"device-fault\"");
  const Answer hang =
      toy("hangs",
          "--time-limit 1 --save '' --reproduce 'quantize_equals_the_reference: op=quantize format=e4m3 recipe=rceil "
          "block=1x32 layout=compact x=bf16 rows=1 cols=1 data=zeros seed=0'");
  EXPECT_EQ(hang.code, 6) << hang.err;
  expect_contains(hang.out, "did not return within the time limit");
}

TEST_F(Gate, that_cannot_save_a_counterexample_says_so_and_keeps_its_code) {
  write_file(dir / "file", "");
  const Answer a = toy("column_33_is_wrong", std::string(kQuantize) + "--save file");
  EXPECT_EQ(a.code, 1) << a.out << a.err;
  expect_contains(a.err, "mxcheck: error: file: is no folder for counterexamples: ");
  expect_contains(a.err, "; --save DIR names another, --save '' saves none\n");
}

TEST_F(Gate, lists_every_statement_with_its_source) {
  const Answer a = expect_output("gate --list", 0);
  const Answer j = mxcheck("gate --list --json");
  const Answer some = expect_output("gate --list --only 'cast_equals*'", 0, {"cast_equals_the_reference\n  "});
  EXPECT_EQ(std::count(some.out.begin(), some.out.end(), '\n'), 3) << some.out;
  const auto list = nlohmann::json::parse(j.out);
  EXPECT_EQ(list.size(), all_statements().size());
  for (const auto& s : list) {
    expect_contains(a.out, s["name"].get<std::string>() + "\n  " + s["sentence"].get<std::string>());
    EXPECT_FALSE(s["source"].get<std::string>().empty());
  }
}

TEST_F(Gate, json_is_all_there_is_on_standard_output) {
  for (const char* mode : {"right", "column_33_is_wrong", "prints", "foreign_text"}) {
    const Answer a = toy(mode, std::string(kQuantize) + "--json --save ''");
    const auto j = nlohmann::json::parse(a.out, nullptr, false);
    ASSERT_FALSE(j.is_discarded()) << mode << a.out;
    EXPECT_EQ(j["exit_code"], a.code);
    EXPECT_EQ(j["seed"], 7);
  }
}

TEST_F(Gate, a_counterexample_is_saved_unless_it_is_not_wanted) {
  EXPECT_EQ(toy("column_33_is_wrong", std::string(kQuantize) + "--save ''").code, 1);
  EXPECT_TRUE(dir.names().empty());
  const Answer a = toy("column_33_is_wrong", kQuantize);
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"mxcheck-cases"}));  // the documented default
  expect_contains(a.out, "saved     mxcheck-cases/quantize_equals_the_reference_");
}

TEST_F(Gate, a_verdict_outweighs_a_file_that_cannot_be_written) {
  write_file(dir / "file", "");
  const Answer a = toy("column_33_is_wrong", std::string(kQuantize) + "--save file --junit r.xml");
  EXPECT_EQ(a.code, 1) << a.err;
  expect_contains(a.out, "exit code 1");
  expect_contains(a.err, "file");
  expect_contains(read_file(dir / "r.xml"), "<failure type=\"mismatch\"");
}

// The folder of the record goes while statements run, as the last byte of a disk may.
TEST_F(Gate, does_not_end_with_a_success_that_its_exit_code_denies) {
  for (const std::string& file : {std::string("record"), std::string("junit"), std::string("html")}) {
    std::filesystem::create_directory(dir / "gone");
    const std::string script = "cd " + dir.path() + "; { TOY=right '" MXCHECK_TOOL "' " + kToy +
                               "--only 'quantize_equals_the_reference' --seed 7 --cases 600 --" + file +
                               " gone/file.h5 2> err; echo $? > code; } | { read line; rm -r gone; cat; } > out";
    write_file(dir / "script", script);
    (void)!std::system(("bash " + (dir / "script")).c_str());
    const std::string out = read_file(dir / "out");
    EXPECT_EQ(read_file(dir / "code"), "3\n") << out;
    expect_contains(out, {"held          quantize_equals_the_reference",
                          "exit code 3: a file could not be written: gone/file.h5: cannot be written"});
    EXPECT_EQ(out.find("exit code 0"), std::string::npos) << out;
    expect_contains(read_file(dir / "err"), "mxcheck: error: gone/file.h5: cannot be written");
  }
}

TEST_F(Gate, junit_is_written_when_it_holds_too) {
  EXPECT_EQ(toy("right", std::string(kQuantize) + "--junit r.xml").code, 0);
  const std::string text = read_file(dir / "r.xml");
  expect_contains(text, {"name=\"quantize_equals_the_reference\"", "<property name=\"seed\" value=\"7\"/>"});
  EXPECT_EQ(text.find("<failure"), std::string::npos);
}

TEST_F(Gate, a_page_is_written_whatever_the_verdict) {
  using Row = std::tuple<const char*, int, const char*>;
  for (const auto& [mode, code, word] : {Row{"right", 0, "HELD"}, Row{"column_33_is_wrong", 1, "FAILED"},
                                         Row{"supports_nothing", 4, "INCONCLUSIVE"}, Row{"crashes", 6, "FAILED"}}) {
    EXPECT_EQ(toy(mode, std::string(kQuantize) + "--save '' --html p.html").code, code);
    const std::string text = read_file(dir / "p.html");
    expect_contains(text,
                    {">" + std::string(word) + "</strong>", "exit code " + std::to_string(code) + ": ", "</html>\n"});
    EXPECT_EQ(dir.names(), (std::vector<std::string>{"p.html"}));
  }
}

TEST_F(Gate, speaks_to_github_actions) {
  write_file(dir / "summary.md", "before\n");
  const std::string summary = "export GITHUB_STEP_SUMMARY=summary.md; ";
  const Answer a = expect_output(kToy + std::string(kQuantize) + "--save '' --github --source src/q.cu:41", 1, {},
                                 summary + "export TOY=column_33_is_wrong; ");
  expect_contains(
      a.out, "\n::error title=quantize_equals_the_reference,file=src/q.cu,line=41::codes differ from the reference%0A");
  const std::string text = read_file(dir / "summary.md");
  EXPECT_EQ(text.rfind("before\n## :x: mxcheck gate: ", 0), 0U) << text;
  expect_contains(text, "**exit code 1: there is a counterexample**");
  EXPECT_EQ(mxcheck(kToy + std::string(kQuantize) + "--github", "unset GITHUB_STEP_SUMMARY; export TOY=right; ").code,
            0);
  expect_toy_refused(2, "--github and --json both want standard output", "right", "--github --json");
  expect_refused(2, "GITHUB_STEP_SUMMARY /nowhere/at/all cannot be written", kToy + std::string("--github"),
                 "export GITHUB_STEP_SUMMARY=/nowhere/at/all; ");
}

// A gate under way is told to stop: it says so, writes its JUnit file, and leaves no process.
TEST_F(Gate, a_signal_ends_it_as_inconclusive_with_its_files_written) {
  for (const char* mode : {"slow", "hangs"}) {
    for (const int signal : {SIGTERM, SIGINT}) {
      SCOPED_TRACE(std::string(mode) + " " + std::to_string(signal));
      // The shell starts the gate, signals the whole group's leader when its worker has run for a while, and returns
      // the gate's status.
      const std::string script =
          "cd " + dir.path() + "; TOY=" + mode + " '" MXCHECK_TOOL "' " + kToy +
          "--seed 1 --cases 100000 --only 'quantize*' --time-limit 60 --junit r.xml > out 2> err & gate=$!; "
          "for i in $(seq 80); do worker=$(cat /proc/$gate/task/$gate/children); [ -z \"$worker\" ] || break; "
          "sleep 0.1; done; sleep 2; kill -" +
          std::to_string(signal) +
          " $gate; wait $gate; echo $? > code; sleep 0.2; [ -n \"$worker\" ] && [ ! -e /proc/$worker ] && "
          "echo gone > worker";
      const auto start = std::chrono::steady_clock::now();
      write_file(dir / "script", script);
      (void)!std::system(("setsid bash -m " + (dir / "script")).c_str());
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
      EXPECT_EQ(read_file(dir / "code"), "4\n") << read_file(dir / "err");
      EXPECT_EQ(read_file(dir / "worker"), "gone\n");
      const std::string junit = read_file(dir / "r.xml");
      expect_contains(junit, {"interrupted by a signal", "interrupted before all of its cases had run"});
      expect_contains(read_file(dir / "out"), "interrupted: statements that had not finished have no verdict");
      for (const std::string& name : dir.names()) std::filesystem::remove_all(dir / name);
    }
  }
}

TEST_F(Gate, the_help_states_the_defaults_that_the_code_has) {
  const Answer help = expect_output("gate --help", 0);
  const auto stated = [&](const std::string& option, const std::string& value) {
    // CLI11 2.1 writes "--suite TEXT=quick", later ones "--suite TEXT [quick]".
    const std::regex pattern("--" + option + " [A-Z]+(=" + value + "| \\[" + value + "\\])\\s");
    EXPECT_TRUE(std::regex_search(help.out, pattern)) << option << "\n" << help.out;
  };
  stated("candidate", "cpu");
  stated("suite", "quick");
  stated("only", "\\*");
  stated("save", "mxcheck-cases");
  stated("time-limit", "20");
  stated("memory-limit", "0");
  EXPECT_EQ(GateOptions{}.time_limit.call, std::chrono::seconds(20));
  EXPECT_EQ(GateOptions{}.suite, Suite::quick);
  EXPECT_EQ(GateOptions{}.only, "*");
  expect_contains(std::regex_replace(help.out, std::regex("\\s+"), " "),
                  {"0 every statement held", "1 a counterexample", "2 the command line", "3 the machine",
                   "4 inconclusive", "6 the candidate crashed or hung", "70 a defect of mxcheck"});
  // The default suite and candidate are the ones that a run without options names.
  const Answer run = mxcheck("gate --only scale_layout_equals_the_reference --seed 1 --json");
  const auto j = nlohmann::json::parse(run.out);
  EXPECT_EQ(j["suite"], "quick");
  EXPECT_EQ(j["candidate"]["name"], "cpu");
}

TEST_F(Gate, a_seed_that_was_not_given_is_drawn_and_said) {
  const auto seed_of = [&] {
    return nlohmann::json::parse(toy("right", "--only quantize* --cases 5 --json").out)["seed"];
  };
  EXPECT_NE(seed_of(), seed_of());
}

}  // namespace
}  // namespace mxcheck
