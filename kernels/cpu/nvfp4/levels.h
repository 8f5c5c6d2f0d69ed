#pragma once
// The numbers of NVFP4's two levels of scales, one at a time: what the SIMD code must give, and what it asks for blocks
// that it does not take. FP32 arithmetic is rounded to nearest even after each operation; the recipe `exact` computes
// in doubles, which hold a product of two floats, and whose quotients fall on the right side of every midpoint.
//
// Everything that a block's codes depend on, but for its elements, is the byte of its scale: no function of an element
// takes the block's amax.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/common/nvfp4/options.h"
#include "kernels/common/nvfp4/policy.h"

namespace mxcheck_kernels::cpu {

inline constexpr std::uint8_t kE4m3Nan = 0x7F;
inline constexpr std::uint8_t kE4m3Largest = 0x7E;  // 448
inline constexpr std::uint8_t kE2m1Nan = 7;         // E2M1 has no NaN: it becomes +6, whatever its sign

// Formats of x as bits, of which magnitudes are ordered as their bits are.
struct Bf16 {
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7F80;
  static float value(Bits bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};
struct Fp32 {
  using Bits = std::uint32_t;
  static constexpr Bits kInfinity = 0x7F800000;
  static float value(Bits bits) { return std::bit_cast<float>(bits); }
};
struct Fp16 {
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7C00;
  static float value(Bits bits) {
    const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
    const std::uint32_t field = bits >> 10 & 0x1FU;
    const std::uint32_t fraction = bits & 0x3FFU;
    if (field == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t fp32_field = field == 0x1F ? 0xFF : field + 112;
    return std::bit_cast<float>(sign | fp32_field << 23 | fraction << 13);
  }
};

// The E4M3 byte of a quotient that is 0 or more: nearest even, at most 448; NaN for NaN. Between 2^e and 2^(e + 1)
// codes are 2^(e - 3) apart, below 2^-6 2^-9.
inline std::uint8_t e4m3_of(double quotient) {
  if (std::isnan(quotient)) return kE4m3Nan;
  if (quotient >= 448) return kE4m3Largest;
  if (quotient < 0x1p-11) return 0;
  const int field = static_cast<int>(std::bit_cast<std::uint64_t>(quotient) >> 52) - 1023;
  const int exponent = field < -6 ? -6 : field;
  // Adding 2^52 leaves an integer: the sum has no room for a fraction.
  const double scaled = quotient * std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 3 - exponent) << 52);
  const int steps = static_cast<int>((scaled + 0x1p52) - 0x1p52);
  return static_cast<std::uint8_t>((exponent + 6) * 8 + steps);
}

inline float e4m3_value(std::uint8_t byte) {
  const int field = byte >> 3;
  const int fraction = byte & 7;
  if (field == 0) return static_cast<float>(fraction) * 0x1p-9F;
  return std::bit_cast<float>(static_cast<std::uint32_t>(field + 120) << 23 | static_cast<std::uint32_t>(fraction)
                                                                                  << 20);
}

// The E2M1 code of a number: nearest even, at most 6 in magnitude, with its sign.
inline std::uint8_t e2m1_of(double value) {
  if (std::isnan(value)) return kE2m1Nan;
  const double m = std::fabs(value);
  const int code = (m > 0.25 ? 1 : 0) + (m >= 0.75 ? 1 : 0) + (m > 1.25 ? 1 : 0) + (m >= 1.75 ? 1 : 0) +
                   (m > 2.5 ? 1 : 0) + (m >= 3.5 ? 1 : 0) + (m > 5 ? 1 : 0);
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

inline float e2m1_value(std::uint8_t code) {
  static constexpr float kValues[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

// The arithmetic of a recipe under a scale of the tensor.
struct Levels {
  Nvfp4Recipe recipe = Nvfp4Recipe::exact;
  float stored = 1;
  float encode = 1;         // S; exact has none
  float decode = 1;         // s
  float encode_over_6 = 1;  // RN(S * RN(1 / 6))

  Levels(Nvfp4Recipe of, float scale) : recipe(of), stored(scale) {
    constexpr float kLargest = std::numeric_limits<float>::max();
    if (recipe == Nvfp4Recipe::exact) {
      decode = scale;
      return;
    }
    if (recipe == Nvfp4Recipe::vllm) {
      encode = scale;
    } else if (scale != 0) {  // an amax of 0 leaves S at 1
      encode = (recipe == Nvfp4Recipe::four_six ? 1536.0F : 2688.0F) / scale;
      if (recipe != Nvfp4Recipe::four_six && encode > kLargest) encode = kLargest;
    }
    decode = 1.0F / encode;
    encode_over_6 = encode * (1.0F / 6.0F);
  }

  [[nodiscard]] bool drops_nan() const { return recipe != Nvfp4Recipe::exact && recipe != Nvfp4Recipe::four_six; }

  // The scale of a block whose largest magnitude is amax, a NaN where it is that of a block with one that counts.
  // stretch: 1.5 where the amax is to become 4 in place of 6.
  [[nodiscard]] std::uint8_t byte_of(float amax, float stretch = 1) const {
    switch (recipe) {
      case Nvfp4Recipe::exact: return std::isinf(amax) ? kE4m3Nan : e4m3_of(double{amax} / (6.0 * decode));
      case Nvfp4Recipe::te: return e4m3_of(amax * encode_over_6);
      case Nvfp4Recipe::vllm: return e4m3_of(amax * (1.0F / 6.0F) * encode);
      case Nvfp4Recipe::te_2_8:
      case Nvfp4Recipe::four_six: break;
    }
    return e4m3_of(amax / 6.0F * encode * stretch);
  }

  // By which the elements of a block are multiplied, in the recipes of FP32 arithmetic.
  [[nodiscard]] float factor_of(std::uint8_t byte) const {
    const bool is_te = recipe == Nvfp4Recipe::te || recipe == Nvfp4Recipe::te_2_8;
    if (byte == 0 && !is_te) return 0;
    const float factor = 1.0F / (e4m3_value(byte) * decode);
    constexpr float kLargest = std::numeric_limits<float>::max();
    return is_te && !(factor < kLargest) ? kLargest : factor;
  }

  // The code of an element of a block with this scale.
  [[nodiscard]] std::uint8_t code_of(float x, std::uint8_t byte) const {
    if (std::isnan(x) || byte == kE4m3Nan) return kE2m1Nan;
    if (recipe != Nvfp4Recipe::exact) return e2m1_of(x * factor_of(byte));
    return e2m1_of(byte == 0 ? x * 0.0 : x / (double{e4m3_value(byte)} * decode));
  }

  // The same by a random word, which is added to the quotient in FP32.
  [[nodiscard]] std::uint8_t stochastic_code_of(float x, std::uint8_t byte, std::uint32_t word) const {
    if (byte == kE4m3Nan || std::isnan(x)) return kE2m1Nan;
    const bool is_exact = recipe == Nvfp4Recipe::exact;
    const float value = !is_exact   ? x * factor_of(byte)
                        : byte == 0 ? x * 0.0F
                                    : static_cast<float>(x / (double{e4m3_value(byte)} * decode));
    if (std::isnan(value)) return kE2m1Nan;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint8_t>(nvfp4_stochastic_code(bits & 0x7FFFFFFFU, word) | (bits >> 28 & 8U));
  }

  // Four Over Six: the difference between an element and its code's value, as it is computed there.
  [[nodiscard]] float error_of(float x, std::uint8_t code, std::uint8_t byte) const {
    return std::fabs(x - e2m1_value(code) * e4m3_value(byte) * stored / 1536.0F);
  }
};

}  // namespace mxcheck_kernels::cpu
