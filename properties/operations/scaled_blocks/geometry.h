#pragma once
// Shapes of a case's scales, and scales in the layouts that it asks for.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "properties/core/compare.h"
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

}  // namespace mxcheck
