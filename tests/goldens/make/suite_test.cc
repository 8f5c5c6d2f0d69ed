#include "goldens/make/suite.h"

#include <gtest/gtest.h>

#include <set>

#include "goldens/make/tables.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

std::string suite_with(const std::string& golden) { return R"({"suite": "s", "goldens": [)" + golden + "]}"; }

std::string quantize_with(const std::string& more) {
  return suite_with(R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "1x32", "recipe": "rceil")" + more +
                    "}");
}

TEST(GoldenSuite, reads_every_field) {
  const GoldenSuite s = parse_suite(
      R"({"suite": "mine", "description": "d", "goldens": [
        {"name": "a-1", "kind": "quantize", "description": "e", "format": "e5m2", "block": "32x1", "recipe": "floor",
         "offsets": [0, 3, 3, 7], "layouts": ["deepgemm", "tcgen05"], "pad_byte": 90, "values": true,
         "input": {"bits": ["3f80", "0", "ffff", "7f80", "1", "2", "3"], "rows": 7, "cols": 1, "dtype": "bf16",
                   "plant": [[6, 0, "abcd"]], "rows_of": [0, 7]}},
        {"name": "b", "kind": "layout", "rows": 3, "cols": 4, "pad_byte": 1},
        {"name": "c", "kind": "formats", "formats": ["e2m1", "float8_e4m3fn"]},
        {"name": "d", "kind": "quantize", "format": "e4m3", "block": "row", "recipe": "te",
         "input": {"file": "x.npy", "index": 2, "dtype": "fp16"}}]})",
      "t");
  EXPECT_EQ(s.name, "mine");
  EXPECT_EQ(s.description, "d");
  ASSERT_EQ(s.goldens.size(), 4U);
  const GoldenSpec& a = s.goldens[0];
  EXPECT_EQ(a.kind, GoldenKind::quantize);
  EXPECT_EQ(a.format, Format::e5m2);
  EXPECT_EQ(a.block, (BlockShape{32, 1}));
  EXPECT_EQ(a.recipe, "floor");
  EXPECT_EQ(a.offsets, (std::vector<std::int64_t>{0, 3, 3, 7}));
  EXPECT_TRUE(a.tcgen05 && a.deepgemm && a.values);
  EXPECT_EQ(int{a.pad_byte}, 90);
  EXPECT_EQ(a.input.bits, (std::vector<std::uint32_t>{0x3F80, 0, 0xFFFF, 0x7F80, 1, 2, 3}));
  ASSERT_EQ(a.input.plants.size(), 1U);
  EXPECT_EQ(a.input.plants[0].bits, 0xABCDU);
  EXPECT_EQ(a.input.row_range->end, 7);
  EXPECT_EQ(s.goldens[1].rows * s.goldens[1].cols, 12);
  EXPECT_EQ(s.goldens[2].formats, (std::vector{Format::e2m1, Format::e4m3}));
  EXPECT_EQ(s.goldens[3].input.file, "x.npy");
  EXPECT_EQ(s.goldens[3].input.index, 2);
  EXPECT_EQ(s.goldens[3].input.file_dtype, "fp16");
  EXPECT_EQ(s.goldens[3].block, (BlockShape{1, 0}));
}

TEST(GoldenSuite, refuses_with_the_place_and_what_would_be_right) {
  const std::string input = R"(, "input": {"real": "layer0.x"})";
  const std::pair<std::string, std::string> table[] = {
      {"", "t: is not valid JSON"},
      {"[]", "t: must be an object"},
      {"{\"suite\": \"s\", \"goldens\": []}", "t.goldens: are at least one"},
      {"{\"suite\": \"s\"}", "t: lacks \"goldens\""},
      {"{\"suite\": \"a/b\", \"goldens\": [{}]}", "t.suite: must be 1 to 64 letters"},
      {"{\"suite\": \"s\", \"suite\": \"s\", \"goldens\": [{}]}", "names 'suite' twice"},
      {std::string(100, '['), "nested too deeply"},
      {suite_with("{}"), "t: goldens[0]: lacks \"name\""},
      {suite_with("3"), "t: goldens[0]: must be an object"},
      {suite_with(R"({"name": "../x", "kind": "formats"})"), "goldens[0].name: must be"},
      {suite_with(R"({"name": "x", "kind": "thing"})"), "goldens[0].kind: must be formats, casts"},
      {suite_with(R"({"name": "x", "kind": "formats"}, {"name": "x", "kind": "formats"})"),
       "goldens[1].name: 'x' is there twice"},
      {suite_with(R"({"name": "x", "kind": "formats", "format": "e4m3"})"), "has \"format\", which means nothing here"},
      {suite_with(R"({"name": "x", "kind": "formats", "formats": ["fp32"]})"), "'fp32' is none of e4m3"},
      {suite_with(R"({"name": "x", "kind": "casts", "format": "fp32"})"), "'fp32' is none of"},
      {suite_with(R"({"name": "x", "kind": "scales", "format": "e8m0"})"), "'e8m0' is none of"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": -1, "cols": 2})"), "rows: must be an integer from 0"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": 1.5, "cols": 2})"), "rows: must be an integer from 0"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": 1048576, "cols": 2})"), "times cols must be at most"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": 1, "cols": 2, "pad_byte": 256})"),
       "pad_byte: must be an integer"},
      {quantize_with(""), "lacks \"input\""},
      {quantize_with(R"(, "input": {})"), "input: takes exactly one of real, file, bits, patterns"},
      {quantize_with(R"(, "input": {"real": "a", "file": "b"})"), "takes exactly one"},
      {quantize_with(R"(, "input": {"real": "a", "rows_of": [3, 1]})"), "rows_of: must be [FIRST, END]"},
      {quantize_with(R"(, "input": {"real": "a", "plant": [[0, 0, "10000"]]})"), "at most 4 hexadecimal digits"},
      {quantize_with(R"(, "input": {"real": "a", "plant": [[0, 0, "-1"]]})"), "hexadecimal digits"},
      {quantize_with(R"(, "input": {"bits": ["1"], "rows": 2, "cols": 1, "dtype": "bf16"})"),
       "holds 1 elements; rows times cols are 2"},
      {quantize_with(R"(, "input": {"patterns": "fp32"})"), "'fp32' is none of bf16, fp16"},
      {quantize_with(input + R"(, "offsets": [1, 2])"), "offsets: "},
      {quantize_with(input + R"(, "offsets": [0, 2, 1])"), "offsets: "},
      {quantize_with(input + R"(, "offsets": [])"), "offsets: are at least two"},
      {quantize_with(input + R"(, "layouts": ["tiles"])"), "layouts: are \"tcgen05\" and \"deepgemm\""},
      {quantize_with(input + R"(, "values": 1)"), "values: must be true or false"},
      {suite_with(R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "2x2", "recipe": "rceil")" + input +
                  "}"),
       "block: "},
      {suite_with(R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "1x32", "recipe": "best")" + input +
                  "}"),
       "recipe: "},
      {suite_with(
           R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "32x32", "recipe": "rceil", "layouts": ["tcgen05"])" +
           input + "}"),
       "layouts: are for E8M0 scales"},
      {suite_with(
           R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "1x32", "recipe": "fp32", "layouts": ["tcgen05"])" +
           input + "}"),
       "layouts: are for E8M0 scales"},
  };
  for (const auto& [text, message] : table) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, message, [&, &text = text] { (void)parse_suite(text, "t"); });
  }
  expect_error(ErrorKind::usage, "over 1 MiB", [] { (void)parse_suite(std::string((1 << 20) + 1, ' '), "t"); });
}

TEST(GoldenSuite, a_file_that_is_not_there_is_said) {
  expect_error(ErrorKind::input, "/nowhere/s.json", [] { (void)read_suite("/nowhere/s.json"); });
  expect_error(ErrorKind::usage, "no suite 'real2'; there are formats, casts", [] { (void)builtin_suite("real2"); });
}

}  // namespace
}  // namespace mxcheck
