#pragma once
// A read-only row-major matrix of FP32, BF16 or FP16 values, and the block shapes that quantization cuts it into.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "numerics/format/format.h"

namespace mxcheck {

struct MatrixView {
  Format dtype = Format::fp32;      // fp32, bf16 or fp16
  const std::byte* data = nullptr;  // no alignment is asked for; may be null when rows or cols is 0
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;  // in elements; at least cols

  // The element as a float: exact for all three types. The caller keeps row and col in range.
  [[nodiscard]] float at(std::int64_t row, std::int64_t col) const;

  // The whole row as floats; values.size() == cols.
  void read_row(std::int64_t row, std::span<float> values) const;
};

// Throws Error{usage} for a type that is none of the three, negative sizes, a stride below cols, no data where there
// are elements, or bytes that 63 bits cannot count.
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
  friend bool operator==(BlockShape, BlockShape) = default;
};

// "1x32", "32x1", "32x32", "1x128", "128x1", "128x128", "row"; Error{usage} for anything else. Any other shape can be
// written as a BlockShape; it has a name in messages only.
BlockShape block_shape_named(std::string_view name);
std::string to_text(BlockShape shape);
std::span<const std::string_view> all_block_shape_names();

// Expert offsets: nondecreasing, first 0, last rows. Empty means one group of all rows. Throws Error{usage} otherwise.
void check_offsets(std::span<const std::int64_t> offsets, std::int64_t rows);

}  // namespace mxcheck
