#pragma once
// The reference for a cast: the code of each element by itself, as encode_element computes it in a block of scale 1,
// whatever the block holds.
//
//   cast(x, Format::e4m3, recipe_named("rceil"))  // 449 becomes 0x7E, a NaN 0x7F
//
//   cast(std::vector{464.0 + 0x1p-44}, Format::e4m3, Rounding::nearest_even, Overflow::non_saturate)  // NaN: 464 is a
//   tie
//
// Values of FP64 are rounded once, from all of their bits.
//
// Recipes that round to nearest even and saturate are encoded many values at a time (encode_blocks.h); all others one
// after the other. Codes are the same.
//
// Errors: Error{usage} for an input that check_matrix refuses, or a format whose codes are no bytes; Error{environment}
// without memory. Threads (0: the machine's) change nothing but the time.

#include <cstdint>
#include <span>
#include <vector>

#include "numerics/scale/recipe.h"
#include "reference/common/matrix.h"

namespace mxcheck {

std::vector<std::uint8_t> cast(const MatrixView& input, Format element, const Recipe& recipe, int threads = 0);
std::vector<std::uint8_t> cast(std::span<const double> values, Format element, Rounding rounding, Overflow overflow,
                               int threads = 0);

}  // namespace mxcheck
