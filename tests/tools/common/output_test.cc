#include <chrono>
#include <thread>

#include "numerics/bytes.h"
#include "tests/testing.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr OutputKinds kTensors = OutputKinds::safetensors_or_hdf5, kArrays = OutputKinds::npy_or_safetensors;

TEST(CheckOutput, takes_the_extensions_of_its_kind) {
  for (const char* name : {"a.safetensors", "a.h5", "a.hdf5"}) check_output(name, kTensors, {"x.npy"});
  for (const char* name : {"a.safetensors", "a.npy"}) check_output(name, kArrays, {});
  for (const char* name : {"a.npy", "a", "a.h5:/x", ""})
    expect_error(ErrorKind::usage, "name the output OUT.safetensors or OUT.h5",
                 [&] { check_output(name, kTensors, {}); });
  expect_error(ErrorKind::usage, "name the output OUT.npy or OUT.safetensors",
               [] { check_output("a.h5", kArrays, {}); });
}

TEST(CheckOutput, refuses_an_input_by_whatever_name) {
  const TemporaryDirectory dir;
  write_file(dir / "x.safetensors", "");
  write_file(dir / "y:z.safetensors", "");
  std::filesystem::create_symlink(dir / "x.safetensors", dir / "link.safetensors");
  const std::string out = dir / "x.safetensors";
  for (const char* input : {"x.safetensors", "x.safetensors:w", "x.safetensors:a:b", "link.safetensors"}) {
    expect_error(ErrorKind::usage, "is the input file", [&] { check_output(out, kArrays, {dir / input}); });
    expect_error(ErrorKind::usage, "is an input file", [&] { check_output(out, kArrays, {"", dir / input}); });
  }
  expect_error(ErrorKind::usage, "is the input file",
               [&] { check_output(dir / "y:z.safetensors", kArrays, {dir / "y:z.safetensors:w"}); });
  check_output(out, kArrays, {dir / "other.safetensors", "", dir / "y:z.safetensors"});
}

TEST(JsonNumber, makes_strings_of_what_json_lacks) {
  EXPECT_EQ(to_text(json_number(0.1), {-1}), "0.1");
  EXPECT_EQ(to_text(json_number(NAN), {-1}), "\"nan\"");
  EXPECT_EQ(to_text(json_number(-INFINITY), {-1}), "\"-inf\"");
}

TEST(PrintJson, ends_its_text_with_a_line) {
  testing::internal::CaptureStdout();
  print_json({{"name", "\xFF"}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{\n  \"name\": \"\xEF\xBF\xBD\"\n}\n");
}

}  // namespace

struct ProgressPeek {
  static std::string after(Progress& progress, std::chrono::seconds s, std::size_t most = 1000) {
    return progress.line(progress.begun_ + s, most);
  }
};

namespace {

using std::chrono::seconds;

TEST(Progress, says_how_much_is_done_and_what_is_left) {
  Progress progress("reading");
  EXPECT_EQ(ProgressPeek::after(progress, seconds(3)), "mxcheck: reading, 3 s");
  progress.now("reading", 0);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(3)), "mxcheck: reading: 0 %, 3 s");
  progress.now("reading", 0.25);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 25 %, 10 s, 30 s left");
  progress.now("reading", 0.999);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 99 %, 10 s, 0 s left");
  double share = 0.5;
  progress.watch("reading", [&] { return share; });
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 50 %, 10 s, 10 s left");
  share = 0.8;
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: reading: 80 %, 10 s, 2 s left");
  progress.now("writing");
  EXPECT_EQ(ProgressPeek::after(progress, seconds(12)), "mxcheck: writing, 12 s");
  EXPECT_EQ(ProgressPeek::after(progress, seconds(150)), "mxcheck: writing, 2 min 30 s");
  progress.now("writing", 0.001);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(36)), "mxcheck: writing: 0 %, 36 s, 9 h 59 min left")
      << "long waits in hours";
}

TEST(Progress, says_how_much_a_second) {
  Progress progress("hashing");
  progress.watch("hashing", [] { return 0.5; });
  progress.rate("MB", 300);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: hashing: 50 %, 10 s, 15 MB a second, 10 s left");
  progress.rate("MB", 30);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: hashing: 50 %, 10 s, 1.5 MB a second, 10 s left");
  progress.watch("gating", [] { return 0.0; });
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: gating: 0 %, 10 s") << "another phase's rate";
  progress.rate("cases", 0, [] { return 400; });
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10)), "mxcheck: gating: 0 %, 10 s, 40 cases a second");
}

TEST(Progress, of_a_narrow_terminal_leaves_out_text_and_no_figures) {
  Progress progress("12 of 156 statements, permuting_blocks_permutes_results");
  progress.now("12 of 156 statements, permuting_blocks_permutes_results", 0);
  progress.now("12 of 156 statements, permuting_blocks_permutes_results", 0.25);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10), 60),
            "mxcheck: 12 of 156 statements, per...: 25 %, 10 s, 30 s left");
  EXPECT_EQ(ProgressPeek::after(progress, seconds(10), 20).size(), 20U) << "narrower than the figures";
}

// A text that names the step changes with every step, and the clock runs on; one that begins again has another clock.
TEST(Progress, that_goes_on_under_another_text_is_the_same_phase) {
  Progress progress("training");
  progress.now("step 0", 0.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  progress.now("step 1", 0.4);
  progress.now("step 2", 0.6);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(100)), "mxcheck: step 2: 60 %, 100 s, 100 s left");  // 0.4 in 100 s
  progress.now("another", 0.5);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(100)), "mxcheck: another: 50 %, 100 s");
  progress.now("another", 0.75);
  EXPECT_EQ(ProgressPeek::after(progress, seconds(101)), "mxcheck: another: 75 %, 101 s, 100 s left");
}

// Progress is shown on a terminal after two seconds, for which no test waits.
TEST(Progress, says_nothing_without_a_terminal_and_ends_at_once) {
  const auto begun = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  {
    Progress progress("one");
    progress.now("two");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
}

TEST(Text, writes_numbers_that_read_back) {
  EXPECT_EQ(decimal(0.1), "0.1");
  EXPECT_EQ(decimal(0.1F), "0.1");
  EXPECT_EQ(decimal(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(decimal(std::copysign(NAN, -1.0)), "nan");
  EXPECT_EQ(decimal(-INFINITY), "-inf");
  EXPECT_EQ(hex(0x7E, 8), "0x7e");
  EXPECT_EQ(hex(1, 12), "0x001");
  EXPECT_EQ(hex(1, 32), "0x00000001");
}

TEST(Text, gives_errors_a_place_and_keeps_their_kind) {
  expect_error(ErrorKind::input, "x.npy: two rows",
               [] { in_place("x.npy", [] { throw Error(ErrorKind::input, "two rows"); }); });
  in_place("x.npy", [] {});
}

TEST(Text, prints_every_byte_on_standard_output) {
  testing::internal::CaptureStdout();
  print("a\x01\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\x01\n");
}

struct Options {
  std::vector<std::string> inputs, names, both;
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
  sub.option("--both", o.both, "Two numbers").exactly(2);
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
      {{"walk"}, "unknown subcommand 'walk'; tool --help lists them"},
      {{"rnu", "a"}, "unknown subcommand 'rnu'; did you mean 'run'?"},
      {{"--flag"}, "unknown option '--flag'; tool --help lists them"},
      {{"--vesion"}, "unknown option '--vesion'; did you mean '--version'?"},
      {{"run", "--walk"}, "unknown option '--walk'; tool run --help lists them"},
      {{"run", "--flga"}, "unknown option '--flga'; did you mean '--flag'?"},
      {{"run", "--Limit=3"}, "unknown option '--Limit'; did you mean '--limit'?"},
      {{"strict", "--mdoe", "x"}, "unknown option '--mdoe'; did you mean '--mode'?"},
      {{"run", "--mode", "solw"}, "--mode: 'solw' is none of slow, fast; did you mean 'slow'?"},
      {{"run", "--mode", "medium"}, "--mode: 'medium' is none of slow, fast"},
      {{"run", "--mode"}, "--mode needs a value: Mode"},
      {{"run", "--mode", "--flag"}, "--mode: '--flag' is none of slow, fast"},
      {{"run", "--mode", "slow", "--mode", "fast"}, "--mode is given 2 times; give it once"},
      {{"run", "--level", "10"}, "--level: '10' is not a whole number from 0 to 9"},
      {{"run", "--level", "x"}, "--level: 'x' is not a whole number from 0 to 9"},
      {{"run", "--level", ""}, "--level: '' is not a whole number from 0 to 9"},
      {{"run", "--level", "1", "--count", "2"}, "--level excludes --count; give one of them"},
      {{"run", "--index", "1"}, "--index requires --level; give both"},
      {{"run", "--limit", "half"}, "--limit: 'half' is not a number"},
      {{"run", "--level", "1", "--index", "two"}, "--index: 'two' is not a whole number"},
      {{"run", "--flag=maybe"}, "--flag is a flag and takes no value"},
      {{"run", "--both", "1"}, "--both needs 2 values: Two numbers"},
      {{"run", "--both", "1", "2", "--both", "3", "4"}, "--both takes 2 values and is given 4"},
      {{"run", "--layer", "x"}, "'x' is no number from 0 to 2^64 - 1"},
      {{"run", "--layer", "18446744073709551616"}, "is no number from 0 to 2^64 - 1"},
      {{"run", "--count", "1.5"}, "--count: '1.5' is not a whole number"},
      {{"run", "--file", ""}, "--file: a name is needed, not ''"},
      {{"run", "--file="}, "--file"},
      {{"run", "--scale", "nan"}, "--scale: 'nan' is no finite number of FP32"},
      {{"run", "--scale", "-inf"}, "--scale: '-inf' is no finite number of FP32"},
      {{"run", "--scale", "1e40"}, "--scale: '1e40' is no finite number of FP32"},
      {{"run", "--scale", "two"}, "--scale: 'two' is no finite number of FP32"},
      {{"run", "--scale", "2x"}, "--scale: '2x' is no finite number of FP32"},
      {{"run", "--scale", ""}, "--scale: '' is no finite number of FP32"},
      {{"strict"}, "--mode is required: Mode"},
      {{"strict", "fast"}, "--mode is required: Mode; 'fast' is an argument too many"},
      {{"strict", "--mode", "fast", "x"}, "'x' is an argument too many; tool strict --help lists what is taken"},
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
  expect_contains(printed({"--help"}), "What it does");
  expect_contains(printed({"run", "--help"}), "--mode TEXT:{slow,fast}=slow");
}

TEST(MatrixOf, is_a_view_of_two_dimensions_or_of_one_matrix_out_of_three) {
  const Tensor t{"", Format::fp32, {2, 2, 3}, to_bytes(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})};
  const MatrixView second = matrix_of({"x", 1, ""}, t);
  EXPECT_EQ(second.rows, 2);
  EXPECT_EQ(second.cols, 3);
  EXPECT_EQ(second.at(1, 2), 11);
  EXPECT_EQ(second.at(0, 0), 6);
  expect_error(ErrorKind::input, "pick one of its 2 matrices with --index I", [&] { matrix_of({"x", {}, ""}, t); });
  expect_error(ErrorKind::usage, "--index 2: x holds matrices 0 to 1", [&] { matrix_of({"x", 2, ""}, t); });
  expect_error(ErrorKind::usage, "--index -1", [&] { matrix_of({"x", -1, ""}, t); });
  const Tensor flat{"", Format::fp32, {6}, std::vector<std::byte>(24)};
  expect_error(ErrorKind::input, "has 1 dimensions; two are needed: reshape", [&] { matrix_of({"x", {}, ""}, flat); });
  expect_error(ErrorKind::input, "--index picks a matrix out of three", [&] { matrix_of({"x", 0, ""}, flat); });
}

TEST(MatrixOf, takes_floats_and_bits_that_are_called_floats) {
  Tensor t{"", Format::bf16, {1, 1}, to_bytes(std::vector<std::uint16_t>{0x3F80})};
  EXPECT_EQ(matrix_of({"x", {}, ""}, t).at(0, 0), 1);
  t.format = Format::uint16;
  EXPECT_EQ(matrix_of({"x", {}, "bf16"}, t).at(0, 0), 1);
  EXPECT_EQ(matrix_of({"x", {}, "fp16"}, t).dtype, Format::fp16);
  expect_error(ErrorKind::input, "has dtype U16; F32, BF16 or F16 is needed; if these are the bits of BF16", [&] {
    matrix_of({"x", {}, ""}, t);
  });
  t.format = Format::fp16;
  expect_error(ErrorKind::usage, "reinterprets 16-bit unsigned integers", [&] { matrix_of({"x", {}, "bf16"}, t); });
  t = {"", Format::fp64, {1, 1}, std::vector<std::byte>(8)};
  expect_error(ErrorKind::input, "convert it to F32 first", [&] { matrix_of({"x", {}, ""}, t); });
}

}  // namespace
}  // namespace mxcheck
