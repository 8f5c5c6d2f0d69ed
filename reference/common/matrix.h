#pragma once
// A read-only row-major matrix of FP32, BF16 or FP16 values, and the block shapes that quantization cuts it into.
//
//   const MatrixView x{Format::bf16, std::as_bytes(std::span(words)).data(), rows, cols, cols};
//   const BlockShape block = block_shape_named("32x1");
//
// Errors: Error{usage} of the check_ functions and of names that there are not. at() and read_row() check nothing.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "numerics/format/format.h"
#include "numerics/names.h"

namespace mxcheck {

struct MatrixView {
  Format dtype = Format::fp32;      // fp32, bf16 or fp16
  const std::byte* data = nullptr;  // no alignment required; may be null when rows or cols is 0
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  // in elements; at least cols
  std::int64_t first_row = 0;   // the number that messages give row 0: a view may be a panel of a larger matrix

  // The element as a float: exact for all three types. The caller keeps row and col in range.
  [[nodiscard]] float at(std::int64_t row, std::int64_t col) const;

  // The whole row as floats; values.size() == cols. Where row_stride == cols, any number of values from there on.
  void read_row(std::int64_t row, std::span<float> values) const;
};

// Throws Error{usage} for a type that is none of the three, negative sizes, a stride below cols, no data where there
// are elements, or a size above 2^63 - 1 bytes.
void check_matrix(const MatrixView& matrix);

// Rows by columns of the block that shares one scale; 0 stands for the matrix's whole extent ("row" is 1 x 0; with
// expert offsets 0 rows means all rows of one expert).
struct BlockShape {
  std::int64_t rows = 1;
  std::int64_t cols = 32;

  // Height and width of a block in a matrix of so many rows and columns, at least 1.
  [[nodiscard]] constexpr std::int64_t height(std::int64_t matrix_rows) const {
    return rows != 0 ? rows : matrix_rows > 1 ? matrix_rows : 1;
  }
  [[nodiscard]] constexpr std::int64_t width(std::int64_t matrix_cols) const {
    return cols != 0 ? cols : matrix_cols > 1 ? matrix_cols : 1;
  }
  [[nodiscard]] constexpr BlockShape transposed() const { return {cols, rows}; }
  friend constexpr bool operator==(BlockShape, BlockShape) = default;
};

// Every shape that has a name: what options accept. Any other can be written as a BlockShape.
inline constexpr std::array<Named<BlockShape>, 10> kBlockShapes{{{"1x32", {1, 32}},
                                                                 {"32x1", {32, 1}},
                                                                 {"32x32", {32, 32}},
                                                                 {"1x128", {1, 128}},
                                                                 {"128x1", {128, 1}},
                                                                 {"128x128", {128, 128}},
                                                                 {"row", {1, 0}},
                                                                 {"1x16", {1, 16}},
                                                                 {"16x1", {16, 1}},
                                                                 {"16x16", {16, 16}}}};
// The first seven: libraries are queried for these, in this order.
inline constexpr std::span kAskedBlockShapes = std::span(kBlockShapes).first<7>();
BlockShape block_shape_named(std::string_view name);  // Error{usage} lists the names
std::string to_text(BlockShape shape);                // its name, or as "16x8"

// Expert offsets: nondecreasing, first 0, last rows. Empty means one group of all rows. Throws Error{usage} otherwise.
void check_offsets(std::span<const std::int64_t> offsets, std::int64_t rows);

}  // namespace mxcheck
