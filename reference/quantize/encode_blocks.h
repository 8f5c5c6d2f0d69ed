#pragma once
// encode(element, value * factor of its block, nearest_even, saturate) over many values, as SIMD. Internal to
// quantize.cc and cast.cc.

#include <cstddef>
#include <cstdint>
#include <span>

#include "numerics/format/format.h"
#include "numerics/scale/recipe.h"

namespace mxcheck::detail {

// A format whose codes are sign, exponent and mantissa in at most 8 bits; others are encode's own.
constexpr bool encodes_blocks_of(Format element) {
  return spec(element).is_element && spec(element).encoding != Encoding::fixed_point;
}

// True if encode_blocks computes what encode_element does, in blocks that are not poisoned.
inline bool encodes_blocks_as(const Recipe& recipe, Format element) {
  return encodes_blocks_of(element) && recipe.scaling != ElementScaling::half_in_fp32 &&
         recipe.rounding == Rounding::nearest_even && recipe.overflow == Overflow::saturate &&
         recipe.drop_negative_zero == DropNegativeZero::none && !recipe.nan_sign;
}

struct EncodeJob {
  Format element;
  std::span<const float> values;  // of rows of blocks: each block has so many, the last what is left
  std::size_t block_cols;
  std::span<const double> factors;  // of the blocks; powers of two, or 0
  std::uint8_t* codes;
};

void encode_blocks(const EncodeJob& job);

}  // namespace mxcheck::detail
