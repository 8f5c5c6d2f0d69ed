#pragma once
// The numbers of multiply(): operands, decoded, an element being a signed significand and an exponent, as fused_sum.h
// has them; and the accumulator, what an old word of D adds to a sum and what a sum becomes as a word of D.
//
//   const detail::Operand a(Format::e4m3, false, codes, scales, 128, 32);
//   a.at(5, 17).significand * 2^(a.at(5, 17).exponent + a.exponent(5) - 3)      // the value, of 3 fraction bits
//   detail::word_of(detail::kFp32, 3, -1) == 0x3FC00000                         // 3 * 2^-1 = 1.5
//
// Does not promise: a check of its arguments. multiply() has made it.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck::emulation::sm100::detail {

// --- operands!
//
// The operands of multiply(), decoded: an element is a signed significand and an exponent, as fused_sum.h has them.
//
//   const detail::Operand a(Format::e4m3, false, codes, scales, 128, 32);
//   a.at(5, 17).significand * 2^(a.at(5, 17).exponent + a.exponent(5) - 3)      // the value, of 3 fraction bits
//
// Does not promise: a check of its arguments. multiply() has made it.

// A zero's: below every other by so much that no sum of two exponents that has one is taken for a product's.
inline constexpr std::int16_t kZeroExponent = -4096;

// The formats of elements that an instruction takes, as numerics/format has them: its table is not a GPU's.
struct ElementFacts {
  int bits;
  int mantissa_bits;
  int bias;
  std::uint32_t max_code;  // the largest finite one
  bool infinities;         // one code above it is an infinity; all others are NaNs
};
constexpr ElementFacts facts(Format format) {
  switch (format) {
    case Format::e4m3: return {8, 3, 7, 0x7E, false};
    case Format::e5m2: return {8, 2, 15, 0x7B, true};
    case Format::fp16: return {16, 10, 15, 0x7BFF, true};
    default: break;
  }
  return {16, 7, 127, 0x7F7F, true};
}

enum class Class : std::uint8_t { finite, zero, infinite, nan };

// An element, decoded. The significand of infinities and NaNs is 0.
struct Element {
  float significand = 0;  // with its sign
  std::int16_t exponent = kZeroExponent;
  Class kind = Class::zero;
  bool negative = false;
};

Element element_of(const FormatSpec& f, std::uint32_t code, bool negate);

// By row. A special is an infinity or a NaN, a scale's included.
class Operand {
 public:
  // `scales` is null where there are none. It must outlive the operand.
  Operand(Format format, bool negate, const std::uint8_t* codes, const std::uint8_t* scales, int rows, int k);

  [[nodiscard]] const Element& at(int row, int k) const { return elements_[static_cast<std::size_t>(row * k_ + k)]; }
  [[nodiscard]] bool special(int row) const { return special_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] bool nan_scale(int row) const { return scales_ != nullptr && scales_[row] == kNanScale; }
  // The scale's, to be added to that of every element of the row.
  [[nodiscard]] std::int16_t exponent(int row) const {
    return scales_ == nullptr ? std::int16_t{0} : static_cast<std::int16_t>(scales_[row] - kScaleBias);
  }

 private:
  static constexpr std::uint8_t kNanScale = 0xFF;
  static constexpr int kScaleBias = 127;

  int k_;
  const std::uint8_t* scales_;
  std::vector<Element> elements_;
  std::vector<bool> special_;
};

// --- the accumulator
//
// Both emulations have these functions: they compile for a GPU as well.
//
// FP32 is cut off, FP16 rounded to nearest even; beyond the largest finite value both are Inf; a zero is +0 always.

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

// c in units of 2^(window - fraction_bits): its exponent is not above the window, so it moves up by 25 - 10 at most, or
// by 35 - 23 (groups.h).
constexpr std::int64_t units_of(const Output& out, const Addend& c, int window, int fraction_bits = kFractionBits) {
  const int up = c.exponent - out.fraction_bits - (window - fraction_bits);
  const std::int64_t units = up >= 0 ? c.magnitude << up : c.magnitude >> std::min(-up, 63);
  return c.negative ? -units : units;
}

// sum * 2^unit in D's format; |sum| < 2^62. The kept bits end at the format's last fraction bit, or a subnormal's. Bits
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
