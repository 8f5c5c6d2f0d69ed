#include "tools/common/panels.h"

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

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
