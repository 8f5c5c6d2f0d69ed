#pragma once
// Where a scale or an element stands: what reports say of it.

#include <cstdint>
#include <string>

#include "properties/core/finding.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {

// The rows and columns of one block.
struct BlockBounds {
  std::int64_t first_row, end_row, first_col, end_col;
};
BlockBounds block_at_scale(const Case& c, const ScaleGeometry& g, std::int64_t scale_row, std::int64_t scale_col);

// Which scale lives at a flat offset of the tcgen05 layout.
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
