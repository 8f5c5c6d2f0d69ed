#include "goldens/make/input.h"

#include <gtest/gtest.h>

#include "goldens/make/embedded.h"
#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

template <class T>
std::vector<T> all_of(const InputRows& rows) {
  std::vector<T> values(static_cast<std::size_t>(rows.rows * rows.cols));
  rows.reader->read(std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(OpenInput, cuts_a_real_tensor_and_plants_bits) {
  InputSpec input;
  input.real = "layer0.w1";
  input.row_range = Range{3, 5}, input.col_range = Range{10, 12};
  input.plants = {{1, 0, 0x7F80}};
  const InputRows rows = open_input(input, ".");
  EXPECT_EQ(rows.dtype, Format::bf16);
  EXPECT_EQ(rows.source, "real tensor layer0.w1, rows 3 to 5, columns 10 to 12, 1 elements planted");
  const auto whole = values_in<std::uint16_t>(real_tensor("layer0.w1").data);
  EXPECT_EQ(all_of<std::uint16_t>(rows),
            (std::vector<std::uint16_t>{whole[3 * 512 + 10], whole[3 * 512 + 11], 0x7F80, whole[4 * 512 + 11]}));
  std::byte more{};
  expect_error(ErrorKind::usage, "more rows asked for than there are", [&] { rows.reader->read(std::span(&more, 1)); });
}

TEST(OpenInput, gives_every_pattern_of_a_type) {
  InputSpec input;
  input.patterns = "fp16", input.dtype = Format::fp16;
  input.rows = input.cols = 256;
  const auto patterns = all_of<std::uint16_t>(open_input(input, "."));
  for (std::size_t i = 0; i < patterns.size(); ++i) ASSERT_EQ(patterns[i], i);
}

TEST(OpenInput, reads_a_file_beside_the_spec_and_a_matrix_out_of_three) {
  const test::TemporaryDirectory dir;
  write_npy(dir / "t.npy",
            {"", Dtype::f32, {3, 2, 2}, to_bytes(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})});
  InputSpec input;
  input.file = "t.npy", input.index = 1;
  const InputRows rows = open_input(input, dir.path());
  EXPECT_EQ(rows.source, "t.npy, matrix 1");
  EXPECT_EQ(all_of<float>(rows), (std::vector<float>{5, 6, 7, 8}));
  input.index = 3;
  expect_error(ErrorKind::usage, "holds matrices 0 to 2, not 3", [&] { open_input(input, dir.path()); });
  input.index.reset();
  expect_error(ErrorKind::input, "has 3 dimensions; two are needed", [&] { open_input(input, dir.path()); });
  write_npy(dir / "t.npy", {"", Dtype::u16, {1, 2}, to_bytes(std::vector<std::uint16_t>{1, 2})});
  expect_error(ErrorKind::input, "has dtype U16; F32, BF16 or F16 is needed, or \"dtype\"",
               [&] { open_input(input, dir.path()); });
  input.file_dtype = "fp16";
  EXPECT_EQ(open_input(input, dir.path()).dtype, Format::fp16);
}

}  // namespace
}  // namespace mxcheck
