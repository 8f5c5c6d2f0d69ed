#pragma once
// BF16 as words, and the sigmoid of a gate.

#include <bit>
#include <cstdint>

#include "kernels/common/layer/sigmoid.h"

namespace mxcheck_kernels::cpu {

inline float fp32_of(std::uint16_t bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }

// Nearest, ties to even; Inf beyond the range; a NaN stays one.
inline std::uint16_t bf16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float sigmoid(float g) { return kSigmoids.q[sigmoid_place(std::bit_cast<std::uint32_t>(g))]; }

}  // namespace mxcheck_kernels::cpu
