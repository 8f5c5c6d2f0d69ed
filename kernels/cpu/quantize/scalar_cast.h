#pragma once
// The code of one element by itself: to nearest, ties to even, saturating. BF16 and FP32 as an element of a block whose
// scale is 1; FP64 from all of its bits, rounded once. By way of FP32 it would be rounded twice: 1.0625 + 2^-52 lies
// above a tie of E4M3, and the FP32 number nearest to it is that tie. Integers only, as in scalar_block.h.

#include <cstdint>

#include "kernels/cpu/quantize/scalar_block.h"

namespace mxcheck_kernels::cpu {

inline constexpr DLDataType kFp64Type{kDLFloat, 64, 1};
inline constexpr int kFp64MantissaBits = 52;
inline constexpr int kFp64Bias = 1023;
inline constexpr std::uint64_t kFp64Magnitude = ~std::uint64_t{0} >> 1;
inline constexpr std::uint64_t kFp64Infinity = std::uint64_t{0x7FF} << kFp64MantissaBits;

template <class F>
std::uint8_t cast_element(std::uint16_t bf16) {
  return encode_element<F>(fp32_bits(bf16), 127);
}
template <class F>
std::uint8_t cast_element(std::uint32_t fp32) {
  return encode_element<F>(fp32, 127);
}
template <class F>
std::uint8_t cast_element(std::uint64_t fp64) {
  const std::uint8_t sign = static_cast<std::uint8_t>(fp64 >> 56 & 0x80);
  const std::uint64_t magnitude = fp64 & kFp64Magnitude;
  if (magnitude > kFp64Infinity) return F::kNanCode;
  const int field = static_cast<int>(magnitude >> kFp64MantissaBits) - kFp64Bias + F::kBias;  // of the code
  if (field > 2 * F::kBias + 1) return sign | F::kLargestCode;                                // infinity, too
  const int drop = kFp64MantissaBits - F::kMantissaBits + (field < 1 ? 1 - field : 0);
  if (drop > kFp64MantissaBits + 1) return sign;  // below half of the smallest code; FP64's zeros and subnormals, too
  const std::uint64_t significand = magnitude % (std::uint64_t{1} << kFp64MantissaBits) | std::uint64_t{1}
                                                                                              << kFp64MantissaBits;
  // The hidden bit, still in `rounded`, adds the one that is taken from the field here; so does a carry.
  const int below = field < 1 ? 0 : (field - 1) << F::kMantissaBits;
  const int code = below + static_cast<int>(shift_to_nearest_even(significand, drop));
  return static_cast<std::uint8_t>(sign | (code > F::kLargestCode ? F::kLargestCode : code));
}

}  // namespace mxcheck_kernels::cpu
