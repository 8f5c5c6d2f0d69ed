// The "input" of a spec, as suite_input.cc reads it.

#include <gtest/gtest.h>

#include "goldens/make/suite_parse.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

InputSpec parsed(const std::string& text) { return parse_input(parse_json(text, "t", 6, ErrorKind::usage), "input"); }

TEST(InputSpec, keeps_every_field_of_each_source) {
  const InputSpec bits = parsed(R"({"bits": ["3f80", "0"], "rows": 1, "cols": 2, "dtype": "bf16",
                                    "rows_of": [0, 1], "cols_of": [1, 2], "plant": [[0, 1, "7F80"]]})");
  EXPECT_EQ(bits.bits, (std::vector<std::uint32_t>{0x3F80, 0}));
  EXPECT_EQ(bits.row_range->end, 1);
  EXPECT_EQ(bits.col_range->first, 1);
  ASSERT_EQ(bits.plants.size(), 1U);
  EXPECT_EQ(bits.plants[0].col, 1);
  EXPECT_EQ(bits.plants[0].bits, 0x7F80U);
  EXPECT_EQ(parsed(R"({"bits": ["ffffffff"], "rows": 1, "cols": 1, "dtype": "fp32"})").bits[0], 0xFFFFFFFFU);
  const InputSpec patterns = parsed(R"({"patterns": "fp16"})");
  EXPECT_EQ(patterns.dtype, Format::fp16);
  EXPECT_EQ(patterns.rows * patterns.cols, 65536);
  const InputSpec loads = parsed(R"({"loads": [1, 2], "dtype": "fp32"})");
  EXPECT_EQ(loads.synthetic, SyntheticLogits::loads);
  EXPECT_EQ(loads.rows, 3);
  EXPECT_EQ(loads.cols, 2);
  EXPECT_EQ(parsed(R"({"file": "x.npy", "index": 1, "dtype": "bf16"})").file_dtype, "bf16");
}

TEST(InputSpec, refuses_with_the_place_and_what_would_be_right) {
  const std::pair<const char*, const char*> table[] = {
      {"{}", "input: takes exactly one of real, file, bits, patterns, ties, loads"},
      {R"({"real": "x", "file": "y"})", "input: takes exactly one of"},
      {R"({"real": "x", "rows_of": [2, 1]})", "input.rows_of: must be [FIRST, END]"},
      {R"({"real": "x", "rows_of": [1]})", "input.rows_of: must be [FIRST, END]"},
      {R"({"real": "x", "plant": [[0, 0]]})", "input.plant: each is [row, column, \"BITS\"]"},
      {R"({"real": "x", "plant": [[-1, 0, "0"]]})", "input.plant: rows and columns are integers from 0"},
      {R"({"real": "x", "plant": [[0, 0, "10000"]]})", "input.plant: bits are strings of at most 4"},
      {R"({"bits": ["0x1"], "rows": 1, "cols": 1, "dtype": "bf16"})", "input.bits: bits are strings"},
      {R"({"bits": [], "rows": 1, "cols": 1, "dtype": "bf16"})", "input.bits: holds 0 elements; rows times cols are 1"},
      {R"({"bits": [], "rows": 0, "cols": 0, "dtype": "e4m3"})", "input.dtype: 'e4m3' is none of bf16, fp16, fp32"},
      {R"({"patterns": "fp32"})", "input.patterns: 'fp32' is none of bf16, fp16"},
      {R"({"file": "x", "plant": []})", "has \"plant\", which means nothing here"},
  };
  for (const auto& [text, message] : table) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, message, [&, &t = text] { (void)parsed(t); });
  }
}

}  // namespace
}  // namespace mxcheck
