// mxcheck completion and mxcheck man: scripts for shells and a manual page, from the table that --help prints.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "mxcheck_version.h"
#include "numerics/text.h"
#include "tools/common/output.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

// Calls `each` for a command and all below it; at: the subcommands that lead there, each with a blank before it.
template <class Each>
void walk(const CommandRow& command, const Each& each, const std::string& at = "") {
  each(command, at);
  for (const CommandRow& sub : command.subcommands) walk(sub, each, at + " " + sub.name);
}

// Between single quotes; `quote` is how the shell writes one inside of them.
std::string shell_word(std::string_view text, std::string_view quote = "'\\''") {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += quote : out += c;
  return out + "'";
}

// " gate|' golden'|' golden make'": the patterns of all subcommands.
std::string all_places(const CommandRow& top, std::string_view separator) {
  std::vector<std::string> places;
  walk(top, [&](const CommandRow&, const std::string& at) {
    if (!at.empty()) places.push_back(shell_word(at));
  });
  return join(places, separator);
}

struct Offer {
  std::string word, help;
};

// The words that may follow a command.
std::vector<Offer> offers_after(const CommandRow& command) {
  std::vector<Offer> offers;
  for (const CommandRow& sub : command.subcommands) offers.push_back({sub.name, sub.what});
  for (const OptionRow& o : command.options) {
    for (const std::string& word : o.is_argument ? o.words : o.names) offers.push_back({word, o.help});
  }
  return offers;
}

// "' golden') offered='make verify' ;;": what may follow each place, as `offered` writes it.
template <class Offered>
std::string cases_of_places(const CommandRow& top, const Offered& offered) {
  std::string cases;
  walk(top, [&](const CommandRow& command, const std::string& at) {
    cases += fmt::format("    {}) {} ;;\n", shell_word(at), offered(command));
  });
  return cases;
}

// "' gate --suite') offered='quick full exhaustive' ;;": what may follow an option; nothing stands for files.
std::string cases_of_values(const CommandRow& top) {
  std::string cases;
  walk(top, [&](const CommandRow& command, const std::string& at) {
    std::vector<std::string> files;
    for (const OptionRow& o : command.options) {
      if (o.is_argument || o.value.empty()) continue;
      std::vector<std::string> places;
      for (const std::string& name : o.names) places.push_back(shell_word(at + " " + name));
      if (o.words.empty()) {
        files.insert(files.end(), places.begin(), places.end());
      } else {
        cases += fmt::format("    {}) offered={} ;;\n", join(places, "|"), shell_word(join(o.words, " ")));
      }
    }
    if (!files.empty()) cases += fmt::format("    {}) offered='' ;;\n", join(files, "|"));
  });
  return cases;
}

std::string bash_completion(const CommandRow& top) {
  const auto offered = [](const CommandRow& command) {
    return "offered=" + shell_word(join(offers_after(command), " ", [](const Offer& o) { return o.word; }));
  };
  return fmt::format(
      "# Completion of {0} for bash, printed by {0} completion bash.\n"
      "_{0}() {{\n"
      "  local at='' offered='' i current=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$at ${{COMP_WORDS[i]}}\" in\n"
      "    {1}) at=\"$at ${{COMP_WORDS[i]}}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n{2}  esac\n"
      "  case \"$at ${{COMP_WORDS[COMP_CWORD-1]}}\" in\n{3}  esac\n"
      "  COMPREPLY=($(compgen -W \"$offered\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _{0} {0}\n",
      top.name, all_places(top, "|"), cases_of_places(top, offered), cases_of_values(top));
}

// "'--suite:quick (under a minute), full'": a row of zsh's _describe.
std::string zsh_row(std::string name, const std::string& help) {
  for (std::size_t at = 0; (at = name.find(':', at)) != std::string::npos; at += 2) name.insert(at, "\\");
  return shell_word(name + ":" + help);
}

std::string zsh_completion(const CommandRow& top) {
  const auto offered = [](const CommandRow& command) {
    const auto row = [](const Offer& o) { return zsh_row(o.word, o.help); };
    return fmt::format("rows=({}){}", join(offers_after(command), " ", row),
                       command.subcommands.empty() ? " files=yes" : "");
  };
  return fmt::format(
      "#compdef {0}\n"
      "# Completion of {0} for zsh, printed by {0} completion zsh.\n"
      "_{0}() {{\n"
      "  local at='' offered=none files='' word\n"
      "  local -a rows\n"
      "  for word in \"${{(@)words[2,CURRENT-1]}}\"; do\n"
      "    case \"$at $word\" in\n"
      "    {1}) at=\"$at $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at ${{words[CURRENT-1]}}\" in\n{2}  esac\n"
      "  if [[ -z $offered ]]; then\n"
      "    _files\n"
      "    return\n"
      "  elif [[ $offered != none ]]; then\n"
      "    compadd -- ${{=offered}}\n"
      "    return\n"
      "  fi\n"
      "  case \"$at\" in\n{3}  esac\n"
      "  _describe -V {0} rows\n"
      "  [[ -z $files || $PREFIX == -* ]] || _files\n"
      "}}\n"
      "_{0} \"$@\"\n",
      top.name, all_places(top, "|"), cases_of_values(top), cases_of_places(top, offered));
}

std::string fish_completion(const CommandRow& top) {
  const auto fish = [](std::string_view text) { return shell_word(text, "\\'"); };
  std::string out = fmt::format(
      "# Completion of {0} for fish, printed by {0} completion fish.\n"
      "function __{0}_is_at\n"
      "  set -l at ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$at $word\"\n"
      "      case {1}\n"
      "        set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv\"\n"
      "end\n",
      top.name, all_places(top, " "));
  walk(top, [&](const CommandRow& command, const std::string& at) {
    const std::string start =
        fmt::format("complete -c {} -n {}", top.name, fish(fmt::format("__{}_is_at '{}'", top.name, at)));
    for (const CommandRow& sub : command.subcommands)
      out += fmt::format("{} -f -a {} -d {}\n", start, sub.name, fish(sub.what));
    for (const OptionRow& o : command.options) {
      std::string line = start;
      if (!o.is_argument) {
        for (const std::string& name : o.names)
          line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        if (!o.value.empty()) line += " -r";
      } else if (o.words.empty()) {
        continue;
      }
      if (!o.words.empty()) line += " -f -a " + fish(join(o.words, " "));
      out += line + " -d " + fish(o.help) + "\n";
    }
  });
  return out;
}

// Text for roff: no escape, no request at the start of a line.
std::string roff(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

std::string roff_of(const OptionRow& o) {
  std::string line = ".TP\n\\fB" + roff(join(o.names, ", ")) + "\\fR";
  if (!o.value.empty() && !o.is_argument) line += " \\fI" + roff(o.value) + "\\fR";
  if (!o.initial.empty()) line += roff(" (default: " + o.initial + ")");
  return line + "\n" + roff(o.help + (o.is_required ? " (required)" : "")) + "\n";
}

std::string roff_of_exits(const CommandRow& command) {
  std::string out;
  for (const auto& [code, meaning] : command.exits) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", code, roff(meaning));
  return out;
}

std::string manual_page(const CommandRow& top) {
  std::string out = fmt::format(
      ".TH {0} 1 \"\" \"mxcheck {1}\" \"\"\n.ad l\n.SH NAME\n{2} \\- {3}\n.SH SYNOPSIS\n\\fB{2}\\fR \\fISUBCOMMAND\\fR "
      "[\\fIOPTIONS\\fR]\n",
      "MXCHECK", kVersion, top.name, roff(top.what));
  walk(top, [&](const CommandRow& command, const std::string& at) {
    if (at.empty()) {
      out += ".SH OPTIONS\n";
    } else {
      out += fmt::format(".SH \"{}{}\"\n{}\n", top.name, at, roff(command.what));
    }
    for (const OptionRow& o : command.options) out += roff_of(o);
    if (at.empty()) return;
    if (!command.footer.empty()) out += ".PP\n.nf\n" + roff(command.footer) + "\n.fi\n";
    out += ".PP\nExit codes:\n" + roff_of_exits(command);
  });
  return out + ".SH \"EXIT STATUS\"\n" + roff_of_exits(top) + ".SH EXAMPLES\n.nf\n" + roff(top.footer) + "\n.fi\n";
}

int print_text(const std::string& text) {
  print(text);
  return 0;
}

}  // namespace

void add_terminal(Command& app) {
  auto shell = std::make_shared<std::string>();
  Command completion =
      app.subcommand("completion", "A script that completes subcommands, options and names in a shell");
  completion.option("SHELL", *shell, "The shell that the script is for").one_of({"bash", "zsh", "fish"}).required();
  completion.footer(
      "An installation has them where the shells look. From a build:\n"
      "  source <(mxcheck completion bash)\n"
      "  mxcheck completion zsh > ~/.zfunc/_mxcheck        with ~/.zfunc in fpath, before compinit\n"
      "  mxcheck completion fish > ~/.config/fish/completions/mxcheck.fish");
  completion.runs([app, shell] {
    return print_text(*shell == "bash"  ? bash_completion(app.row())
                      : *shell == "zsh" ? zsh_completion(app.row())
                                        : fish_completion(app.row()));
  });
  Command man = app.subcommand("man", "The manual page of mxcheck, as roff");
  man.footer("Example:\n  mxcheck man > mxcheck.1 && man ./mxcheck.1");
  man.runs([app] { return print_text(manual_page(app.row())); });
}

}  // namespace mxcheck
