#pragma once
// encode(element, value * factor of its block, nearest_even, saturate) over many values, as SIMD. Internal to
// quantize.cc.

#include <cstddef>
#include <cstdint>
#include <span>

#include "numerics/format/format.h"

namespace mxcheck::detail {

// A format whose codes are sign, exponent and mantissa in at most 8 bits; others are encode's own.
constexpr bool encodes_blocks_of(Format element) {
  return spec(element).is_element && spec(element).encoding != Encoding::fixed_point;
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
