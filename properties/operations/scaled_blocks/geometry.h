#pragma once
// Shapes of a case's scales, and scales in the layouts that it asks for.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "properties/core/compare.h"
#include "properties/core/finding.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

// Shapes of the scales of one direction of a case.
struct ScaleGeometry {
  BlockShape block;
  std::int64_t rows = 0;  // compact
  std::int64_t cols = 0;
  std::vector<std::int64_t> rows_of_expert;
  std::int64_t tiled_bytes = 0;  // 0 where the layout is not defined (blocks of several rows and columns)
  [[nodiscard]] std::int64_t count() const { return rows * cols; }
  [[nodiscard]] bool row_blocks() const { return block.rows == 1; }
  [[nodiscard]] ScaleShape shape() const { return {rows_of_expert, cols, block}; }
};
ScaleGeometry scale_geometry(const Case& c, BlockShape block);
std::int64_t scale_row_of(const Case& c, const ScaleGeometry& g, std::int64_t row);  // compact, of the row's block

// Compact scale bytes in the given layout (mxcheck_layout), the case's pad byte included, and back.
std::vector<std::uint8_t> in_layout(const Case& c, const ScaleGeometry& g, std::vector<std::uint8_t> compact,
                                    int layout);
std::vector<std::uint8_t> to_compact(const ScaleGeometry& g, std::span<const std::uint8_t> scales, int layout);

// A case's tensors: codes of the matrix; scales of a direction, in the variant's layout or compact.
TensorInfo codes_info(const Case& c, std::string name, BlockShape block);
TensorInfo scales_info(const Case& c, std::string name, BlockShape block);
TensorInfo compact_scales_info(const Case& c, BlockShape block);
TensorInfo compact_scales_info(const Case& c);  // of the blocks that the variant has

// Where a scale or an element stands: what reports say of it.

// The rows and columns of one block.
struct BlockBounds {
  std::int64_t first_row, end_row, first_col, end_col;
};
BlockBounds block_at_scale(const Case& c, const ScaleGeometry& g, std::int64_t scale_row, std::int64_t scale_col);

// The scale that lives at a flat offset of the tcgen05 layout.
struct ScalePlace {
  std::int64_t row = -1;  // -1: padding
  std::int64_t col = -1;
};
ScalePlace scale_at(const ScaleGeometry& g, std::int64_t offset);

std::string place_text(std::int64_t row, std::int64_t col);  // "(3, 4)"
// "place     element (0, 1) of block (2, 3)"
std::string place_line(const Case& c, const ScaleGeometry& g, std::int64_t row, std::int64_t col);
// "layout    byte 17 of the tcgen05 tiles is the scale of block (2, 3)"; the place.
ScalePlace explain_tiled_byte(const ScaleGeometry& g, Finding& finding);
// The last two lines of an element's report: what was expected, what was observed, how far apart.
void explain_words(Finding& finding);

}  // namespace mxcheck
