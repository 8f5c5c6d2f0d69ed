#include "tools/common/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"

namespace mxcheck {

struct CommandState {
  explicit CommandState(const std::string& what) : app(what) {}
  CLI::App app;
  std::function<int()> chosen;
  std::map<const CLI::App*, std::string> footers;
  std::map<const CLI::App*, std::map<int, std::string>> exits;
  std::map<const CLI::Option*, std::vector<std::string>> words;
};

namespace {

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

const CLI::App& chosen_app(const CLI::App& top) {
  const auto chosen = top.get_subcommands();
  return chosen.empty() ? top : chosen_app(*chosen.front());
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// "mxcheck golden make"
std::string name_of(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* parent = app.get_parent(); parent != nullptr; parent = parent->get_parent())
    name = parent->get_name() + " " + name;
  return name;
}

// The option or argument that an error of CLI11 names, and what that text says of it.
struct Complaint {
  const CLI::Option* option = nullptr;
  std::string name, rest;
};

Complaint complaint_of(const CLI::App& app, const std::string& text) {
  constexpr std::string_view kConversion = "Could not convert: ", kFlag = "is not an allowed value for ";
  Complaint c;
  if (const std::size_t flag = text.find(kFlag); flag != std::string::npos) {
    c.name = text.substr(flag + kFlag.size());
  } else {
    const std::size_t begin = text.starts_with(kConversion) ? kConversion.size() : 0;
    const std::size_t end = text.find_first_of(": ", begin);
    c.name = text.substr(begin, end - begin);
    c.rest = end == std::string::npos ? "" : text.substr(end);
  }
  c.option = app.get_option_no_throw(c.name);
  return c;
}

std::string help_of(const CLI::Option* option) {
  return option == nullptr || option->get_description().empty() ? "" : ": " + option->get_description();
}

// "a whole number", by CLI11's name of the type.
std::string kind_of_value(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.starts_with("UINT")) return "a whole number from 0";
  if (type.starts_with("INT")) return "a whole number";
  return type.starts_with("FLOAT") ? "a number" : "a value";
}

// How often an option with this number of values was given, or how many values are missing.
std::string wrong_count(const Complaint& c) {
  const int wanted = c.option->get_items_expected_max(), least = c.option->get_items_expected_min();
  const std::size_t given = c.option->results().size();
  if (given <= static_cast<std::size_t>(wanted)) {
    return c.name + " needs " + (least <= 1 ? "a value" : std::to_string(least) + " values") + help_of(c.option);
  }
  if (wanted == 1) return c.name + " is given " + std::to_string(given) + " times; give it once";
  return c.name + " takes " + std::to_string(wanted) + " values and is given " + std::to_string(given);
}

template <class Kind>
bool is(const CLI::ParseError& e) {
  return dynamic_cast<const Kind*>(&e) != nullptr;
}

// An error of CLI11 in the words of the other messages: which option, what is wrong, what would be right. left: words
// of the command that no option or argument took.
std::string explained(const CLI::App& app, const CLI::ParseError& e, const std::vector<std::string>& left) {
  const Complaint c = complaint_of(app, e.what());
  const auto other = [&](std::string_view word) { return c.rest.substr(c.rest.find(word) + word.size()); };
  if (is<CLI::ExtrasError>(e) && !left.empty())
    return "'" + left[0] + "' is an argument too many; " + name_of(app) + " --help lists what is taken";
  if (is<CLI::RequiredError>(e)) {
    return c.name + " is required" + help_of(c.option) +
           (left.empty() ? "" : "; '" + left[0] + "' is an argument too many");
  }
  if (is<CLI::RequiresError>(e)) return c.name + " requires " + other("requires ") + "; give both";
  if (is<CLI::ExcludesError>(e)) return c.name + " excludes " + other("excludes ") + "; give one of them";
  if (c.option == nullptr) return e.what();
  if (c.option->get_items_expected_max() == 0) return c.name + " is a flag and takes no value";
  if (is<CLI::ArgumentMismatch>(e)) return wrong_count(c);
  if (is<CLI::ConversionError>(e))
    return c.name + ": '" + join(c.option->results(), " ") + "' is not " + kind_of_value(*c.option);
  return e.what();
}

// The reason why a command is refused: an option or a subcommand that does not exist, or the error that CLI11 found.
std::string refusal(const CLI::App& top, const CLI::ParseError& e) {
  const CLI::App& app = chosen_app(top);
  const std::string name = name_of(app);
  const auto about = [&](const char* kind, const std::string& word, const std::vector<std::string>& known) {
    const std::string near = did_you_mean(word, known);
    return std::string("unknown ") + kind + " '" + word + "'" +
           (near.empty() ? "; " + name + " --help lists them" : near);
  };
  const std::vector<std::string> words = top.remaining(true);
  // Options behind a subcommand that there is not belong to it.
  const bool is_subcommand = !app.get_subcommands({}).empty() && !words.empty() && !is_option(words[0]);
  const auto option = std::find_if(words.begin(), words.end(), is_option);
  if (option != words.end() && !is_subcommand) {
    std::vector<std::string> known;
    for (const CLI::Option* o : app.get_options()) {
      for (const std::string& long_name : o->get_lnames()) known.push_back("--" + long_name);
    }
    return about("option", option->substr(0, option->find('=')), known);
  }
  std::vector<std::string> known;
  for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  if (known.empty()) return explained(app, e, words);
  return words.empty() ? "no subcommand given; " + name + " --help lists them" : about("subcommand", words[0], known);
}

// The meaning of a code where nothing else is said.
std::map<int, std::string> exits_of(const CommandState& state, const CLI::App& app) {
  std::map<int, std::string> all{{0, "done"},
                                 {2, "the command line, or an input that is not what it should be"},
                                 {3, "the machine lacks something: no memory, a full disk"},
                                 {70, "a defect of mxcheck"}};
  const auto own = state.exits.find(&app);
  if (own == state.exits.end()) return all;
  for (const auto& [code, meaning] : own->second) all[code] = meaning;
  return all;
}

// The end of each --help.
void say_exits(CommandState& state, CLI::App& app) {
  std::string text = state.footers[&app];
  if (!text.empty()) text += "\n\n";
  text += "Exit codes:";
  for (const auto& [code, meaning] : exits_of(state, app)) {
    const std::string number = std::to_string(code);
    text += "\n  " + number + std::string(5 - number.size(), ' ') + meaning;
  }
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) say_exits(state, *sub);
  app.footer(text);
}

}  // namespace

CommandOption CommandOption::required() {
  option_->required();
  return *this;
}

CommandOption CommandOption::shows_default() {
  option_->capture_default_str();
  return *this;
}

CommandOption CommandOption::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::Validator(
      [words](const std::string& text) {
        const bool known = std::find(words.begin(), words.end(), text) != words.end();
        return known ? "" : "'" + text + "' is none of " + join(words, ", ") + did_you_mean(text, words);
      },
      "{" + join(words, ",") + "}"));
  return completes(words);
}

CommandOption CommandOption::completes(const std::vector<std::string>& words) {
  state_->words[option_] = words;
  return *this;
}

CommandOption CommandOption::between(std::int64_t low, std::int64_t high) {
  const std::string range = " from " + std::to_string(low) + " to " + std::to_string(high);
  option_->check(CLI::Validator(
      [=](const std::string& text) {
        char* end = nullptr;
        errno = 0;
        const std::int64_t value = std::strtoll(text.c_str(), &end, 0);  // base 0: 0x7f too, as the conversion has it
        const bool whole = !text.empty() && end == text.c_str() + text.size() && errno == 0;
        return whole && value >= low && value <= high ? "" : "'" + text + "' is not a whole number" + range;
      },
      "INT in [" + std::to_string(low) + " - " + std::to_string(high) + "]"));
  return *this;
}

CommandOption CommandOption::counter() {
  option_->check(CLI::Validator(  // a minus sign would wrap around, and more digits be cut
      [](const std::string& text) {
        return parse_number<std::uint64_t>(text) ? "" : "'" + text + "' is no number from 0 to 2^64 - 1";
      },
      ""));
  return *this;
}

CommandOption CommandOption::finite_fp32() {
  option_->check(CLI::Validator(  // the conversion itself takes "nan", and makes an infinity of 1e40
      [](const std::string& text) {
        char* end = nullptr;
        const auto value = static_cast<float>(std::strtold(text.c_str(), &end));
        const bool whole = !text.empty() && end == text.c_str() + text.size();
        return whole && std::isfinite(value) ? "" : "'" + text + "' is no finite number of FP32";
      },
      ""));
  return *this;
}

CommandOption CommandOption::not_empty() {
  option_->check(
      CLI::Validator([](const std::string& text) { return text.empty() ? "a name is needed, not ''" : ""; }, ""));
  return *this;
}

CommandOption CommandOption::comma_separated() {
  option_->delimiter(',')->allow_extra_args(false);
  return *this;
}

CommandOption CommandOption::exactly(int values) {
  option_->expected(values);
  return *this;
}

CommandOption CommandOption::excludes(const CommandOption& other) {
  option_->excludes(other.option_);
  return *this;
}

CommandOption CommandOption::needs(const CommandOption& other) {
  option_->needs(other.option_);
  return *this;
}

CommandOption CommandOption::in_group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& what) {
  return {app_->add_subcommand(name, what), state_};
}

void Command::requires_subcommand() { app_->require_subcommand(1); }

template <class T>
CommandOption Command::option(const std::string& names, T& to, const std::string& help) {
  CommandOption option(app_->add_option(names, to, help), state_);
  if constexpr (kIsOptional<T>) option.not_empty();  // which would leave it as if it had not been given
  return option;
}

template CommandOption Command::option(const std::string&, std::string&, const std::string&);
template CommandOption Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template CommandOption Command::option(const std::string&, int&, const std::string&);
template CommandOption Command::option(const std::string&, float&, const std::string&);
template CommandOption Command::option(const std::string&, double&, const std::string&);
template CommandOption Command::option(const std::string&, std::size_t&, const std::string&);
template CommandOption Command::option(const std::string&, std::int64_t&, const std::string&);
template CommandOption Command::option(const std::string&, std::optional<float>&, const std::string&);
template CommandOption Command::option(const std::string&, std::optional<double>&, const std::string&);
template CommandOption Command::option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template CommandOption Command::option(const std::string&, std::optional<std::uint32_t>&, const std::string&);
template CommandOption Command::option(const std::string&, std::optional<std::uint64_t>&, const std::string&);

CommandOption Command::flag(const std::string& name, bool& to, const std::string& help) {
  return {app_->add_flag(name, to, help), state_};
}

void Command::footer(const std::string& text) { state_->footers[app_] = text; }

void Command::exits(const std::map<int, std::string>& meanings) { state_->exits[app_] = meanings; }

CommandRow Command::row() const {
  CommandRow row{app_->get_name(), app_->get_description(), state_->footers[app_], exits_of(*state_, *app_), {}, {}};
  for (CLI::Option* o : app_->get_options([](const CLI::Option*) { return true; })) {
    OptionRow option{
        {}, "", o->get_default_str(), {}, o->get_description(), o->get_group(), o->get_positional(), o->get_required()};
    for (const std::string& name : o->get_snames()) option.names.push_back("-" + name);
    for (const std::string& name : o->get_lnames()) option.names.push_back("--" + name);
    if (o->get_positional()) option.names = {o->get_name(true, false)};
    if (o->get_items_expected_max() != 0) option.value = o->get_type_name();
    if (const auto words = state_->words.find(o); words != state_->words.end()) option.words = words->second;
    row.options.push_back(std::move(option));
  }
  for (CLI::App* sub : app_->get_subcommands([](CLI::App*) { return true; }))
    row.subcommands.push_back(Command(sub, state_).row());
  return row;
}

void Command::runs(const std::function<int()>& action) {
  app_->callback([state = state_, action] { state->chosen = action; });
}

CommandLine::CommandLine(const std::string& name, const std::string& what, const std::string& version)
    : state_(std::make_unique<CommandState>(what)) {
  CLI::App& app = state_->app;
  app.name(name);
  app.set_version_flag("--version", version, "Print the version and exit");
  app.get_formatter()->column_width(34);
  app.require_subcommand(1);
}

CommandLine::~CommandLine() = default;

Command CommandLine::top() { return {&state_->app, state_.get()}; }

int CommandLine::run(int argc, char** argv) {
  CLI::App& app = state_->app;
  say_exits(*state_, app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    throw Error(ErrorKind::usage, refusal(app, e));
  }
  return state_->chosen();
}

}  // namespace mxcheck
