#pragma once
// Codes to exact values and back, for every format, in integer arithmetic on the fields of a double.
//
//   decode(Format::e4m3, 0x7E)                                             == 448.0
//   encode(Format::e4m3, 449.0, Rounding::nearest_even, Overflow::saturate) == 0x7E
//
// Every finite value of every format is a double, and so is every float times a power of two from 2^-127 to 2^127
// (24 significant bits, exponents -276 .. 254): "as if computed exactly, then rounded once" needs nothing wider.
//
// E8M0 is a format like the others here: encode(Format::e8m0, v, Rounding::upward, Overflow::non_saturate) is CUDA's
// cudaRoundPosInf, Rounding::toward_zero its cudaRoundZero, and the nearest two are there as well.
//
// Errors: none. Codes with bits beyond their format are the caller's mistake and decode to anything.
//
// Does not promise: the sign or payload of a NaN. Any NaN encodes as the format's nan_code.

#include <bit>
#include <cstdint>
#include <limits>

#include "numerics/format/format.h"

namespace mxcheck {

enum class Rounding : std::uint8_t {
  nearest_even,  // ties to the even code: IEEE 754 roundTiesToEven
  nearest_away,  // ties away from zero: IEEE 754 roundTiesToAway
  toward_zero,   // discard what does not fit: IEEE 754 roundTowardZero
  stochastic,  // add a given 32-bit word to the first 32 bits of the discarded fraction; a carry rounds away from zero
  upward,      // toward +Inf: IEEE 754 roundTowardPositive; for E8M0, which ignores signs, the magnitude rounds up
};

enum class Overflow : std::uint8_t {
  saturate,      // beyond the largest finite value, and infinities: the largest finite value with the sign
  non_saturate,  // beyond the largest finite value (after rounding), and infinities: Inf, or NaN where there is no Inf
};

constexpr double decode(Format format, std::uint32_t code) {
  const FormatSpec& f = spec(format);
  const auto power_of_two = [](int exponent) {  // -1022 <= exponent <= 1023
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  };
  if (f.encoding == Encoding::power_of_two) {
    return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : power_of_two(static_cast<int>(code) - f.bias);
  }
  if (f.encoding == Encoding::fixed_point) {
    return static_cast<double>(static_cast<std::int8_t>(code)) * power_of_two(-f.mantissa_bits);
  }
  const std::uint32_t sign_bit = std::uint32_t{1} << (f.bits - 1);
  const std::uint32_t magnitude = code & (sign_bit - 1);
  const bool negative = (code & sign_bit) != 0;
  if (magnitude > f.max_code) {
    const bool infinite = f.encoding == Encoding::ieee && magnitude == f.max_code + 1;
    const double special =
        infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return negative ? -special : special;
  }
  const int exponent_field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t hidden_bit = std::uint32_t{1} << f.mantissa_bits;
  const std::uint32_t mantissa = magnitude & (hidden_bit - 1);
  const std::uint32_t significand = exponent_field == 0 ? mantissa : hidden_bit + mantissa;
  const int exponent = (exponent_field == 0 ? 1 : exponent_field) - f.bias - f.mantissa_bits;
  const double value = static_cast<double>(significand) * power_of_two(exponent);
  return negative ? -value : value;
}

namespace detail {

// The result of truncating significand * 2^-drop to an integer: the integer, and the fraction against one half.
struct Cut {
  std::uint64_t kept;
  int against_half;  // -1, 0, 1; meaningful when inexact
  bool inexact;
  std::uint32_t fraction;  // the first 32 bits of the fraction
};

// The helpers are forced inline so that encode<E4m3>() in a loop folds its format and rounding away: the sweep over all
// 2^32 floats depends on it.
[[gnu::always_inline]] constexpr Cut cut(std::uint64_t significand, int drop) {  // significand < 2^53
  if (drop <= 0) return {significand << -drop, -1, false, 0};
  if (drop > 85) return {0, -1, significand != 0, 0};  // below 2^-32: neither half nor a bit of the fraction
  const std::uint64_t kept = drop > 63 ? 0 : significand >> drop;
  const std::uint64_t rest = drop > 63 ? significand : significand & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = drop > 64 ? 0 : std::uint64_t{1} << (drop - 1);  // 0: half is above every rest
  const int against_half = half == 0 ? -1 : (rest > half) - (rest < half);
  const std::uint64_t fraction = drop <= 32 ? rest << (32 - drop) : rest >> (drop - 32);
  return {kept, against_half, rest != 0, static_cast<std::uint32_t>(fraction)};
}

[[gnu::always_inline]] constexpr bool rounds_up(const Cut& c, Rounding rounding, bool negative,
                                                std::uint32_t random_word) {
  switch (rounding) {
    case Rounding::nearest_even: return c.inexact && (c.against_half > 0 || (c.against_half == 0 && (c.kept & 1) != 0));
    case Rounding::nearest_away: return c.inexact && c.against_half >= 0;
    case Rounding::toward_zero: return false;
    case Rounding::stochastic: return (std::uint64_t{c.fraction} + random_word) >> 32 != 0;
    case Rounding::upward: return c.inexact && !negative;
  }
  return false;
}

// A positive finite double as significand * 2^exponent with 2^52 <= significand < 2^53.
struct Normalized {
  std::uint64_t significand;
  int exponent;
};

[[gnu::always_inline]] constexpr Normalized normalize(std::uint64_t magnitude_bits) {
  const int field = static_cast<int>(magnitude_bits >> 52);
  const std::uint64_t mantissa = magnitude_bits & ((std::uint64_t{1} << 52) - 1);
  if (field != 0) return {mantissa | (std::uint64_t{1} << 52), field - 1075};
  const int shift = std::countl_zero(mantissa) - 11;
  return {mantissa << shift, -1074 - shift};
}

constexpr std::uint32_t encode_fixed_point(const FormatSpec& f, bool negative, std::uint64_t magnitude_bits,
                                           Rounding rounding, std::uint32_t random_word) {
  std::uint64_t steps = 0;
  if (magnitude_bits >= std::uint64_t{0x7FF} << 52) {
    steps = f.max_code;
  } else if (magnitude_bits != 0) {
    const Normalized n = normalize(magnitude_bits);
    if (n.exponent + 52 > 8) {
      steps = f.max_code;
    } else {
      const Cut c = cut(n.significand, -f.mantissa_bits - n.exponent);
      steps = c.kept + (rounds_up(c, rounding, negative, random_word) ? 1 : 0);
    }
  }
  if (steps > f.max_code) steps = f.max_code;
  return static_cast<std::uint32_t>(negative ? (256 - steps) & 0xFF : steps);
}

constexpr std::uint32_t encode_power_of_two(std::uint64_t magnitude_bits, Rounding rounding, Overflow overflow,
                                            std::uint32_t random_word) {
  const std::uint32_t top = overflow == Overflow::saturate ? 0xFE : 0xFF;
  if (magnitude_bits == std::uint64_t{0x7FF} << 52) return top;
  if (magnitude_bits == 0) return 0x00;
  const Normalized n = normalize(magnitude_bits);
  const int floor_log2 = n.exponent + 52;
  if (floor_log2 < -127) return 0x00;
  // The significand's fraction decides; its unit is the gap to the next power of two. Ties have no even significand to
  // go to (every one is 1), so nearest_even and nearest_away both go up, as PyTorch and ml_dtypes do from 2^-126 on;
  // below it those two go up always (0x00400001 to code 1), which no rounding here repeats.
  const Cut c = cut(n.significand, 52);
  const bool nearest = rounding == Rounding::nearest_even || rounding == Rounding::nearest_away;
  const bool up = nearest ? c.inexact && c.against_half >= 0 : rounds_up(c, rounding, false, random_word);
  const int code = floor_log2 + 127 + (up ? 1 : 0);
  if (code > 0xFE) return rounding == Rounding::toward_zero ? 0xFE : top;
  return static_cast<std::uint32_t>(code);
}

[[gnu::always_inline]] constexpr std::uint32_t encode_with(const FormatSpec& f, double value, Rounding rounding,
                                                           Overflow overflow, std::uint32_t random_word) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  const bool negative = magnitude != bits;
  constexpr std::uint64_t kInfinity = std::uint64_t{0x7FF} << 52;
  if (magnitude > kInfinity) return f.nan_code;
  if (f.encoding == Encoding::fixed_point) {
    return encode_fixed_point(f, negative, magnitude, rounding, random_word);
  }
  if (f.encoding == Encoding::power_of_two) {
    return encode_power_of_two(magnitude, rounding, overflow, random_word);
  }
  const std::uint32_t sign = negative ? std::uint32_t{1} << (f.bits - 1) : 0;
  const bool keeps_finite = overflow == Overflow::saturate || f.encoding == Encoding::finite_only;
  const std::uint32_t beyond = keeps_finite                       ? sign | f.max_code
                               : f.encoding == Encoding::nan_only ? f.nan_code
                                                                  : sign | (f.max_code + 1);
  if (magnitude == kInfinity) return beyond;
  if (magnitude == 0) return sign;
  if (rounding == Rounding::nearest_even && static_cast<int>(magnitude >> 52) - 1023 >= 1 - f.bias) {
    // Most calls, and half the work of what follows: from the lowest normal number on a code and the bits below it are
    // one number, which is rounded by an addition; a carry out of the mantissa is the next binade's first code.
    const int drop = 52 - f.mantissa_bits;
    const std::uint64_t below_half = (std::uint64_t{1} << (drop - 1)) - 1;
    const std::uint64_t rounded = (magnitude + below_half + (magnitude >> drop & 1)) >> drop;
    const std::uint64_t code = rounded - (static_cast<std::uint64_t>(1023 - f.bias) << f.mantissa_bits);
    return code > f.max_code ? beyond : sign | static_cast<std::uint32_t>(code);
  }
  const Normalized n = normalize(magnitude);
  const int floor_log2 = n.exponent + 52;
  const int binade = floor_log2 > 1 - f.bias ? floor_log2 : 1 - f.bias;  // subnormals share the lowest normal's step
  const Cut c = cut(n.significand, binade - f.mantissa_bits - n.exponent);
  const std::int64_t base = std::int64_t{binade + f.bias - 1} << f.mantissa_bits;
  const bool up = rounds_up(c, rounding, negative, random_word);
  const std::int64_t code = base + static_cast<std::int64_t>(c.kept) + (up ? 1 : 0);
  if (code > static_cast<std::int64_t>(f.max_code)) {
    const bool stays = rounding == Rounding::toward_zero || (rounding == Rounding::upward && negative);
    return stays ? sign | f.max_code : beyond;
  }
  return sign | static_cast<std::uint32_t>(code);
}

}  // namespace detail

// The code of value under the named rounding. Zero keeps its sign where the format has one. E8M0 ignores the sign (as
// CUDA and PyTorch do), maps values below its range to 0x00, and has no mantissa, so no even code (see above); MXINT8
// saturates at +-127 steps and leaves 0x80 unused. random_word is read by Rounding::stochastic alone. Toward zero never
// turns a finite value into Inf or NaN, nor does upward a negative one.
constexpr std::uint32_t encode(Format format, double value, Rounding rounding, Overflow overflow,
                               std::uint32_t random_word = 0) {
  return detail::encode_with(spec(format), value, rounding, overflow, random_word);
}

// The same on the types: decode(E4m3{0x7E}) == 448.0, encode<E4m3>(449.0, ...) == E4m3{0x7E}.
template <class T>
requires requires(T t) { t.bits, T::format; }
constexpr double decode(T code) { return decode(T::format, code.bits); }

template <class T>
requires requires(T t) { t.bits, T::format; }
[[gnu::always_inline]] constexpr T encode(double value, Rounding rounding, Overflow overflow,
                                          std::uint32_t random_word = 0) {
  const std::uint32_t code = detail::encode_with(spec(T::format), value, rounding, overflow, random_word);
  return T{{static_cast<decltype(T::bits)>(code)}};
}

}  // namespace mxcheck
