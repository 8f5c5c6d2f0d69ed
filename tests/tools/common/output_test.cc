#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"

namespace mxcheck {
namespace {

using test::expect_error;

constexpr OutputKinds kTensors = OutputKinds::safetensors_or_hdf5, kArrays = OutputKinds::npy_or_safetensors;

TEST(CheckOutput, takes_the_extensions_of_its_kind) {
  for (const char* name : {"a.safetensors", "a.h5", "a.hdf5"}) check_output(name, kTensors, {"x.npy"});
  for (const char* name : {"a.safetensors", "a.npy"}) check_output(name, kArrays, {});
  for (const char* name : {"a.npy", "a", "a.h5:/x", ""}) {
    expect_error(ErrorKind::usage, "name the output OUT.safetensors or OUT.h5",
                 [&] { check_output(name, kTensors, {}); });
  }
  expect_error(ErrorKind::usage, "name the output OUT.npy or OUT.safetensors",
               [] { check_output("a.h5", kArrays, {}); });
}

TEST(CheckOutput, refuses_an_input_by_whatever_name) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "x.safetensors", "");
  test::write_file(dir / "y:z.safetensors", "");
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
  static std::string after(Progress& progress, std::chrono::seconds s) { return progress.line(progress.begun_ + s); }
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
  test::expect_error(ErrorKind::input, "x.npy: two rows",
                     [] { in_place("x.npy", [] { throw Error(ErrorKind::input, "two rows"); }); });
  in_place("x.npy", [] {});
}

TEST(Text, prints_every_byte_on_standard_output) {
  testing::internal::CaptureStdout();
  print("a\x01\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\x01\n");
}

}  // namespace
}  // namespace mxcheck
