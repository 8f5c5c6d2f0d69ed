#pragma once
// The command line in a few calls, so that one source alone reads CLI11, whose headers take eight seconds to compile.
//
//   Command sub = parent.subcommand("scale", "The scale of a block");
//   sub.option("--format", o->format, "Format of the elements").shows_default();
//   sub.runs([o] { return run(*o); });

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mxcheck {

struct CommandState;

// The table that --help prints, as data: what the completions of shells and the manual page are made of.
struct OptionRow {
  std::vector<std::string> names;  // "-o", "--output"; of an argument its one name
  std::string value;               // "TEXT", "UINT"; empty: a flag
  std::string initial;             // the default, if --help says it
  std::vector<std::string> words;  // for completions
  std::string help, group;
  bool is_argument = false, is_required = false;
};
struct CommandRow {
  std::string name, what, footer;
  std::map<int, std::string> exits;
  std::vector<OptionRow> options;
  std::vector<CommandRow> subcommands;
};

// An option that was just added, to describe it further.
class CommandOption {
 public:
  CommandOption(CLI::Option* option, CommandState* state) : option_(option), state_(state) {}
  CommandOption required();
  CommandOption shows_default();
  CommandOption one_of(const std::vector<std::string>& words);
  CommandOption completes(const std::vector<std::string>& words);  // shells offer these; others are taken too
  CommandOption between(std::int64_t low, std::int64_t high);      // inclusive
  CommandOption counter();                                         // 0 to 2^64 - 1, digits alone
  CommandOption finite_fp32();                                     // a number that FP32 holds: no NaN, no infinity
  CommandOption not_empty();        // what a name may not be: "$OUT" of a variable that was never set
  CommandOption comma_separated();  // what follows the one word is no value of this option
  CommandOption exactly(int values);
  CommandOption excludes(const CommandOption& other);
  CommandOption needs(const CommandOption& other);
  CommandOption in_group(const std::string& heading);

 private:
  CLI::Option* option_;
  CommandState* state_;
};

class Command {
 public:
  Command(CLI::App* app, CommandState* state) : app_(app), state_(state) {}
  Command subcommand(const std::string& name, const std::string& what);
  void requires_subcommand();

  // "-o,--output", or "NAME" for what stands without a flag. T: std::string, a vector of them, int, float, double,
  // std::size_t, std::int64_t, or a std::optional of float, double, std::int64_t, std::uint32_t, std::uint64_t. `to`
  // keeps its value when the option is not given, and outlives the command line.
  template <class T>
  CommandOption option(const std::string& names, T& to, const std::string& help);
  CommandOption flag(const std::string& name, bool& to, const std::string& help);

  void footer(const std::string& text);
  // The meanings of exit codes here, in place of or beside "done", usage (2), environment (3) and a defect (70).
  void exits(const std::map<int, std::string>& meanings);
  [[nodiscard]] CommandRow row() const;  // of this and all below it
  // The action of this subcommand when it is chosen: returns the exit code, throws mxcheck::Error for bad input.
  void runs(const std::function<int()>& action);

 private:
  CLI::App* app_;
  CommandState* state_;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& what, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command top();
  // Runs the chosen subcommand and returns its exit code; --help and --version print and return 0. Error{usage} for
  // arguments that fit no subcommand.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CommandState> state_;
};

}  // namespace mxcheck
