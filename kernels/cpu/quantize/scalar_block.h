#pragma once
// Blocks that the SIMD kernels do not take, one element at a time: NaN, infinities, and amax so small that subnormal
// inputs become codes other than zero. Slow and complete: right for every block, integers only (no rounding mode, no
// flush-to-zero and no library function affects the result).

#include <bit>
#include <cstdint>

#include "kernels/cpu/quantize/element.h"

namespace mxcheck_kernels::cpu {

inline constexpr std::uint32_t kFp32Magnitude = 0x7FFFFFFF;
inline constexpr std::uint32_t kFp32Infinity = 0x7F800000;

inline std::uint32_t fp32_bits(std::uint16_t bf16) { return std::uint32_t{bf16} << 16; }
inline std::uint32_t fp32_bits(std::uint32_t fp32) { return fp32; }

// A finite magnitude other than zero as significand * 2^(field - 150), 2^23 <= significand < 2^24; field may be
// below 1.
struct Normal {
  std::uint32_t significand;
  int field;
};

inline Normal normalize(std::uint32_t magnitude) {
  const int field = static_cast<int>(magnitude >> 23);
  if (field != 0) return {(magnitude & 0x7FFFFF) | 0x800000, field};
  const int shift = std::countl_zero(magnitude) - 8;
  return {magnitude << shift, 1 - shift};
}

// The scale byte of a finite amax.
template <class F>
std::uint8_t scale_byte(ScaleRule rule, std::uint32_t amax) {
  if (amax == 0) return 0;
  const bool fp32_rule = rule == ScaleRule::rceil_fp32 || rule == ScaleRule::te;
  if (fp32_rule && amax == F::kFp32RuleException) return 0;
  const Normal n = normalize(amax);
  const int round_up = rule != ScaleRule::floor && n.significand > 0xE00000 ? 1 : 0;  // 1.75 = 0xE00000 * 2^-23
  const int byte = n.field - F::kLargestExponent + round_up;
  return static_cast<std::uint8_t>(byte < 0 ? 0 : byte);
}

// Drops the last bits of a significand of FP32 or FP64, and rounds to nearest, ties to even.
template <class T>
T shift_to_nearest_even(T significand, int drop) {  // 1 <= drop
  if (drop > (sizeof(T) == 4 ? 24 : 53)) return 0;  // below half of the last place
  const T kept = significand >> drop;
  const T rest = significand - (kept << drop);
  const T half = T{1} << (drop - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

// The code of x * 2^(127 - byte), byte 0 .. 254: NaN to NaN, beyond the largest value to the largest value.
template <class F>
std::uint8_t encode_element(std::uint32_t bits, std::uint8_t byte) {
  const std::uint8_t sign = static_cast<std::uint8_t>(bits >> 24 & 0x80);
  const std::uint32_t magnitude = bits & kFp32Magnitude;
  if (magnitude > kFp32Infinity) return F::kNanCode;
  if (magnitude == kFp32Infinity) return sign | F::kLargestCode;
  if (magnitude == 0) return sign;
  const Normal n = normalize(magnitude);
  const int field = n.field - byte + F::kBias;  // the exponent field of the code, before rounding
  const int subnormal_shift = field < 1 ? 1 - field : 0;
  const std::uint32_t rounded = shift_to_nearest_even(n.significand, 23 - F::kMantissaBits + subnormal_shift);
  if (field > 2 * F::kBias + 1) return sign | F::kLargestCode;
  // The hidden bit, still in `rounded`, adds the one that is taken from the field here; so does a carry.
  const std::uint32_t below = field < 1 ? 0 : static_cast<std::uint32_t>(field - 1) << F::kMantissaBits;
  const std::uint32_t code = below + rounded;
  return static_cast<std::uint8_t>(sign | (code > F::kLargestCode ? F::kLargestCode : code));
}

// A whole block: rows x cols values of type T, codes_stride apart in the output. Returns the scale byte.
template <class F, class T>
std::uint8_t quantize_block(ScaleRule rule, const T* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                            std::uint8_t* codes, std::int64_t codes_stride) {
  std::uint32_t amax = 0;
  bool has_nan = false;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::uint32_t magnitude = fp32_bits(x[r * stride + c]) & kFp32Magnitude;
      const bool is_nan = magnitude > kFp32Infinity;
      has_nan = has_nan || is_nan;
      if (!is_nan && magnitude > amax) amax = magnitude;
    }
  }
  const bool poisoned = rule != ScaleRule::te && (has_nan || amax == kFp32Infinity);
  const std::uint8_t finite_byte = amax == kFp32Infinity ? std::uint8_t{254} : scale_byte<F>(rule, amax);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::uint32_t bits = fp32_bits(x[r * stride + c]);
      codes[r * codes_stride + c] = poisoned ? F::kNanCode : encode_element<F>(bits, finite_byte);
    }
  }
  return poisoned ? kNanByte : finite_byte;
}

}  // namespace mxcheck_kernels::cpu
