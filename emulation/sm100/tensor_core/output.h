#pragma once
// The accumulator of multiply(): what an old word of D adds to a sum, and what a sum becomes as a word of D.
//
//   detail::word_of(detail::kFp32, 3, -1) == 0x3FC00000                // 3 * 2^-1 = 1.5
//
// Both emulations have these functions: they compile for a GPU as well.
//
// FP32 is cut off, FP16 rounded to nearest even; beyond the largest finite value both are Inf; a zero is +0 always.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "emulation/sm100/tensor_core/operand.h"

namespace mxcheck::emulation::sm100::detail {

inline constexpr int kFractionBits = 25;  // kept below the window

// D's format: what c is read as, and what a sum becomes.
struct Output {
  int exponent_bits;
  int fraction_bits;
  bool to_nearest;  // even; else toward zero
  std::uint32_t nan;

  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr std::uint32_t sign() const { return 1U << (exponent_bits + fraction_bits); }
  [[nodiscard]] constexpr std::uint32_t infinity() const { return ((1U << exponent_bits) - 1) << fraction_bits; }
};

inline constexpr Output kFp32{8, 23, false, 0x7FFFFFFF};
inline constexpr Output kFp16{5, 10, true, 0x7FFF};

// nvcc 13.0 makes 0 of std::bit_width in device code, without a word: libstdc++ asks a builtin that it does not have.
constexpr int width_of(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  return 64 - __clzll(static_cast<long long>(x));
#else
  return static_cast<int>(std::bit_width(x));
#endif
}

struct Addend {
  std::int64_t magnitude;
  std::int16_t exponent;  // kZeroExponent of a zero
  bool negative;
};

constexpr Addend addend_of(const Output& out, std::uint32_t word) {
  const std::uint32_t magnitude = word & (out.sign() - 1);
  if (magnitude == 0) return {0, kZeroExponent, false};
  const auto field = static_cast<int>(magnitude >> out.fraction_bits);
  const std::uint32_t hidden = 1U << out.fraction_bits;
  const std::uint32_t fraction = magnitude & (hidden - 1);
  return {field == 0 ? fraction : fraction + hidden, static_cast<std::int16_t>(std::max(field, 1) - out.bias()),
          (word & out.sign()) != 0};
}

// c in units of 2^(window - 25): its exponent is not above the window, so it moves up by 25 - 10 at most.
constexpr std::int64_t units_of(const Output& out, const Addend& c, int window) {
  const int up = c.exponent - out.fraction_bits - (window - kFractionBits);
  const std::int64_t units = up >= 0 ? c.magnitude << up : c.magnitude >> std::min(-up, 63);
  return c.negative ? -units : units;
}

// sum * 2^unit in D's format; |sum| < 2^33. The kept bits end at the format's last fraction bit, or a subnormal's. Bits
// carried out of a significand that was rounded up raise the exponent field by themselves.
constexpr std::uint32_t word_of(const Output& out, std::int64_t sum, int unit) {
  if (sum == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int exponent = std::max(width_of(magnitude) - 1 + unit, 1 - out.bias());
  const int drop = exponent - out.fraction_bits - unit;
  std::uint64_t kept = drop <= 0 ? magnitude << -drop : magnitude >> std::min(drop, 63);
  if (out.to_nearest && drop > 0 && drop < 63) {
    const std::uint64_t rest = magnitude & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && kept % 2 == 1)) ++kept;
  }
  if (kept == 0) return 0;  // +0, of a negative sum too
  const std::uint32_t sign = sum < 0 ? out.sign() : 0;
  if (exponent > out.bias()) return sign | out.infinity();
  // The hidden bit, if there is one, adds 1 to the field.
  const auto field = static_cast<std::uint32_t>(exponent + out.bias() - 1);
  return sign | ((field << out.fraction_bits) + static_cast<std::uint32_t>(kept));
}

}  // namespace mxcheck::emulation::sm100::detail
