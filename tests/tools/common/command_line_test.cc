#include "tools/common/command_line.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

struct Options {
  std::vector<std::string> inputs, names;
  std::string mode = "slow";
  int level = 3;
  std::int64_t count = 7;
  double limit = 0.5;
  std::optional<std::int64_t> index;
  std::optional<std::uint32_t> layer;
  std::string file;
  float scale = 1;
  bool flag = false;
};

// The exit code of "tool ARGUMENTS...", whose subcommand `run` has all of the options.
int ran(Options& o, std::vector<std::string> arguments) {
  CommandLine line("tool", "What it does", "tool 1");
  Command sub = line.top().subcommand("run", "Runs");
  sub.option("IN", o.inputs, "Inputs");
  sub.option("--names", o.names, "Names").comma_separated();
  sub.option("--mode", o.mode, "Mode").one_of({"slow", "fast"}).shows_default();
  const CommandOption level = sub.option("--level", o.level, "Level").between(0, 9);
  sub.option("--count", o.count, "Count").excludes(level);
  sub.option("--limit", o.limit, "Limit");
  sub.option("--index", o.index, "Index").needs(level);
  sub.option("--layer", o.layer, "Layer").counter();
  sub.option("--file", o.file, "File").not_empty();
  sub.option("--scale", o.scale, "Scale").finite_fp32();
  sub.flag("--flag", o.flag, "Flag");
  sub.runs([] { return 42; });
  Command strict = line.top().subcommand("strict", "Needs");
  strict.option("--mode", o.mode, "Mode").required();
  strict.runs([] { return 43; });
  arguments.insert(arguments.begin(), "tool");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  return line.run(static_cast<int>(argv.size()), argv.data());
}

TEST(CommandLine, runs_the_chosen_subcommand_with_its_options) {
  Options o;
  EXPECT_EQ(ran(o, {"run",        "a",      "b",       "--names", "c,d",     "--mode",       "fast",
                    "--level",    "9",      "--limit", "1e3",     "--index", "-4",           "--layer",
                    "4294967295", "--flag", "--file",  "f",       "--scale", "-3.4028235e38"}),
            42);
  EXPECT_EQ(o.file, "f");
  EXPECT_EQ(o.scale, -0x1.fffffep127F);
  EXPECT_EQ(o.inputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.names, (std::vector<std::string>{"c", "d"}));
  EXPECT_EQ(o.mode, "fast");
  EXPECT_EQ(o.level, 9);
  EXPECT_EQ(o.limit, 1000);
  EXPECT_EQ(o.index, -4);
  EXPECT_EQ(o.layer, 4294967295U);
  EXPECT_TRUE(o.flag);
  EXPECT_EQ(o.count, 7) << "what is not given keeps its value";
  EXPECT_EQ(ran(o, {"strict", "--mode", "x"}), 43);
}

TEST(CommandLine, refuses_what_fits_no_subcommand) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> table{
      {{}, "no subcommand given; tool --help lists them"},
      {{"walk"}, "unknown subcommand or option 'walk'; tool --help lists them"},
      {{"--flag"}, "unknown subcommand or option '--flag'"},
      {{"run", "--walk"}, "--walk"},
      {{"run", "--mode", "medium"}, "--mode: medium not in {slow,fast}"},
      {{"run", "--level", "10"}, "--level: Value 10 not in range 0 to 9"},
      {{"run", "--level", "x"}, "--level: Value x not in range 0 to 9"},
      {{"run", "--level", "1", "--count", "2"}, "--level excludes --count"},
      {{"run", "--index", "1"}, "--index requires --level"},
      {{"run", "--layer", "x"}, "'x' is no number from 0 to 2^64 - 1"},
      {{"run", "--layer", "18446744073709551616"}, "is no number from 0 to 2^64 - 1"},
      {{"run", "--count", "1.5"}, "--count"},
      {{"run", "--file", ""}, "--file: a name is needed, not ''"},
      {{"run", "--file="}, "--file"},
      {{"run", "--scale", "nan"}, "--scale: 'nan' is no finite number of FP32"},
      {{"run", "--scale", "-inf"}, "--scale: '-inf' is no finite number of FP32"},
      {{"run", "--scale", "1e40"}, "--scale: '1e40' is no finite number of FP32"},
      {{"run", "--scale", "two"}, "--scale: 'two' is no finite number of FP32"},
      {{"run", "--scale", "2x"}, "--scale: '2x' is no finite number of FP32"},
      {{"run", "--scale", ""}, "--scale: '' is no finite number of FP32"},
      {{"strict"}, "--mode is required"},
  };
  for (const auto& [arguments, message] : table) {
    Options o;
    expect_error(ErrorKind::usage, message, [&, &a = arguments] { ran(o, a); });
  }
}

TEST(CommandLine, prints_help_and_version_and_succeeds) {
  const auto printed = [&](const std::vector<std::string>& arguments) {
    Options o;
    testing::internal::CaptureStdout();
    EXPECT_EQ(ran(o, arguments), 0);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed({"--version"}), "tool 1\n");
  EXPECT_NE(printed({"--help"}).find("What it does"), std::string::npos);
  EXPECT_NE(printed({"run", "--help"}).find("--mode TEXT:{slow,fast}=slow"), std::string::npos);
}

}  // namespace
}  // namespace mxcheck
