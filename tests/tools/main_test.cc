#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using Tool = test::ToolTest;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_F(Tool, prints_its_version_and_help_and_succeeds) {
  const test::Answer version = mxcheck("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("mxcheck " MXCHECK_PROJECT_VERSION " ", 0), 0U) << version.out;
  for (const std::string command : {"", "quantize ", "dequantize ", "scale ", "formats "}) {
    const test::Answer help = mxcheck(command + "--help");
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << command;
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST_F(Tool, the_examples_of_help_that_need_no_files_run) {
  for (const std::string command : {"", "scale ", "formats "}) {
    const std::string help = mxcheck(command + "--help").out;
    std::size_t run = 0;
    for (std::size_t at = help.find("\n  mxcheck "); at != std::string::npos; at = help.find("\n  mxcheck ", at + 1)) {
      std::string line = help.substr(at + 11, help.find('\n', at + 1) - at - 11);
      line = line.substr(0, line.find("   "));  // the remark
      if (line.rfind("scale", 0) != 0 && line.rfind("formats", 0) != 0) continue;
      EXPECT_EQ(mxcheck(line).code, 0) << line;
      ++run;
    }
    EXPECT_GE(run, 2U) << command;
  }
}

TEST_F(Tool, refuses_unknown_words_with_code_2) {
  expect_refused(2, "no subcommand given", "");
  expect_refused(2, "unknown subcommand or option 'quantise'", "quantise x.npy");
  expect_refused(2, "unknown subcommand or option '--quick'", "--quick");
}

TEST_F(Tool, keeps_to_one_line_whatever_a_name_holds) {
  expect_refused(2, "a b  [31mc.npy: cannot be opened",
                 "quantize \"$(printf 'a\\nb \\033[31mc.npy')\" -o q.safetensors");
}

TEST_F(Tool, calls_a_full_disk_an_environment_error) {
  expect_refused(3, "standard output cannot be written", "formats bf16 > /dev/full");
  expect_refused(3, "standard output cannot be written", "scale 1 > /dev/full");
  for (const char* arguments : {"--version", "--help", "route --help", "route --list", "gate --list"}) {
    expect_refused(3, "standard output cannot be written", std::string(arguments) + " > /dev/full");
  }
  write_safetensors(dir / "real.safetensors", real_tensors());
  expect_refused(3, "writing failed: File too large", "quantize real.safetensors:layer0.x -o q.safetensors",
                 "ulimit -f 8; ");
}

TEST_F(Tool, calls_a_lack_of_memory_an_environment_error) {
  if (kSanitized) GTEST_SKIP() << "sanitizers do not run under a memory limit";
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1), }";
  test::write_file(dir / "big.npy", std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(dict.size()) + '\0' + dict);
  std::filesystem::resize_file(dir / "big.npy",
                               10 + dict.size() + (std::uintmax_t{4} << 30));  // all but the header a hole
  // quantize holds one number a row of blocks, and here each has one element.
  expect_refused(3, "big.npy: rows of blocks: no memory for 1073741825 values of 8 bytes",
                 "quantize big.npy -o q.safetensors", "ulimit -v 2000000; ");
  const std::string why = "big.npy: out of memory: 4294967296 bytes are needed";
  expect_refused(3, why, "route big.npy --top-k 1", "ulimit -v 2000000; ");
  expect_refused(3, why, "mma --contract sm90_bf16 --a big.npy --b big.npy -o d.npy", "ulimit -v 2000000; ");
  // Two vectors whose product is too large.
  write_npy(dir / "long.npy", test::make_tensor("", Format::uint8, {40000, 1}, std::vector<std::uint8_t>(40000)));
  expect_refused(3, "d.npy: out of memory: 6400000000 bytes are needed",
                 "mma --contract sm90_fp8 --a long.npy --b long.npy -o d.npy", "ulimit -v 2000000; ");
}

// An empty name, which "$OUT" of a script that lost its variable gives, is an option without a value, not one left out.
TEST_F(Tool, refuses_an_empty_name) {
  write_npy(dir / "x.npy", test::make_tensor("", Format::fp32, {1, 2}, std::vector<float>{1, 2}));
  write_npy(dir / "a.npy", test::make_tensor("", Format::uint8, {1, 1}, std::vector<std::uint8_t>{56}));
  const std::string route = "route x.npy --top-k 1 ";
  const std::string mma = "mma --contract sm90_fp8 --a a.npy --b a.npy --explain 0,0 ";
  for (const std::string& arguments :
       {route + "-o ''", route + "--bias ''", route + "--name ''", mma + "-o ''", mma + "--c ''", mma + "--scale-a ''",
        std::string("matmul q.safetensors q.safetensors --explain 0,0 -o ''"), std::string("gate --record ''"),
        std::string("gate --junit ''"), std::string("gate --reproduce ''")}) {
    expect_refused(2, ": a name is needed, not ''", arguments);
  }
}

TEST_F(Tool, is_silent_on_standard_error_when_that_is_no_terminal) {
  write_safetensors(dir / "real.safetensors", real_tensors());
  EXPECT_EQ(mxcheck("quantize real.safetensors:layer0.x -o q.safetensors").err, "");
}

}  // namespace
}  // namespace mxcheck
