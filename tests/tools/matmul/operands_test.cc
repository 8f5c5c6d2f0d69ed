#include "tools/matmul/operands.h"

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(StackOf, is_a_matrix_or_a_batch) {
  const Stack one = stack_of({"", Dtype::u8, {2, 3}, {}}, "x");
  EXPECT_TRUE(!one.batched && one.count == 1 && one.rows == 2 && one.cols == 3);
  const Stack many = stack_of({"", Dtype::u8, {4, 2, 3}, {}}, "x");
  EXPECT_TRUE(many.batched && many.count == 4 && many.rows == 2 && many.cols == 3);
  expect_error(ErrorKind::input, "x: has 1 dimensions", [] { stack_of({"", Dtype::u8, {6}, {}}, "x"); });
}

TEST(CodeFormat, follows_the_dtype_or_the_name_where_it_fits) {
  const auto of = [](const char* name, Dtype dtype) { return code_format(name, {"", dtype, {1, 1}, {}}, "x"); };
  EXPECT_EQ(of("", Dtype::u8), Format::e4m3);
  EXPECT_EQ(of("", Dtype::u16), Format::bf16);
  EXPECT_EQ(of("", Dtype::f32), Format::fp32);
  EXPECT_EQ(of("e2m1", Dtype::u8), Format::e2m1);
  EXPECT_EQ(of("fp16", Dtype::f16), Format::fp16);
  EXPECT_EQ(of("e5m6", Dtype::u16), Format::e5m6);
  expect_error(ErrorKind::input, "x: is U16; e4m3 codes are U8", [&] { of("e4m3", Dtype::u16); });
  expect_error(ErrorKind::input, "x: is BF16; fp16 codes are U16", [&] { of("fp16", Dtype::bf16); });
  expect_error(ErrorKind::input, "x: is I64; codes are U8 or U16", [&] { of("", Dtype::i64); });
  expect_error(ErrorKind::usage, "'e9' is no format", [&] { of("e9", Dtype::u8); });
}

TEST(CheckCodes, finds_the_first_with_bits_beyond_its_format) {
  const auto codes = to_bytes(std::vector<std::uint8_t>{0, 15, 16, 17});
  check_codes(Format::e2m3, codes, "x");
  check_codes(Format::e4m3, to_bytes(std::vector<std::uint8_t>{255}), "x");
  expect_error(ErrorKind::input, "x: code 16 at place 2: e2m1 codes are 0 to 15, one a byte",
               [&] { check_codes(Format::e2m1, codes, "x"); });
}

TEST(ParsePlace, is_two_numbers_from_zero) {
  EXPECT_EQ(parse_place("3,7", "--explain"), std::pair(std::int64_t{3}, std::int64_t{7}));
  for (const char* text : {"", ",", "3", "3,", ",7", "3,7,1", "-1,0", "0,-1", "a,0", "3, 7"}) {
    expect_error(ErrorKind::usage, "--explain " + std::string(text) + ": an output is named ROW,COLUMN",
                 [&] { parse_place(text, "--explain"); });
  }
}

TEST(WriteResult, gives_the_one_tensor_in_either_format) {
  const test::TemporaryDirectory dir;
  const Tensor d{"d", Dtype::f32, {1, 2}, to_bytes(std::vector<float>{1, 2})};
  for (const char* name : {"d.npy", "d.safetensors"}) {
    write_result(dir / name, d);
    EXPECT_EQ(read_tensor(dir / name).data, d.data) << name;
  }
}

}  // namespace
}  // namespace mxcheck
