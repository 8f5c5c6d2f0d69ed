#pragma once
// From a block's largest magnitude (amax) to its scale: the arithmetic rules that implementations use, bit for bit.
//
// Let vmax be the element format's largest value (448 for E4M3) and emax its exponent (8). The norm is `rceil`:
//   byte = 127 + max(-127, ceil(log2(amax / vmax)))        computed as an exact rational
// which for a normal amax is integer-only: exponent field, plus one if the significand exceeds that of vmax.
// The other rules reproduce what other implementations compute, rounding errors included; numerics/scale/recipe.h says
// which implementation uses which.
//
//   scale_byte(ScaleRule::rceil, Format::e4m3, 448.0F) == 127
//
// Sources: OCP MX 1.0 section 6.3 for floor; the implementations named in numerics/scale/recipe.h for the others.
// Errors: Error{internal} for a byte of ScaleRule::fp32 or e4m3.
//
// Does not promise: anything about elements or about blocks with NaN or Inf in them. That is numerics/scale/recipe.h.

#include <cstdint>
#include <optional>
#include <string_view>

#include "numerics/format/format.h"

namespace mxcheck {

// Written a for amax, RN for round-to-nearest-even to FP32, [E, M] for the exponent and mantissa fields of an FP32.
enum class ScaleRule : std::uint8_t {
  rceil,       // exact ceil(log2(a / vmax)): the norm
  floor,       // floor(log2 a) - emax, from the bits: OCP MX 1.0 section 6.3
  ceil,        // ceil(log2 a) - emax, from the bits
  even,        // exponent of a after rounding it half up to the element's mantissa width, minus emax; carries into 255
  even_carry,  // as even, but a carry into field 255 is an exponent like any other: 255 - emax
  fp32,        // the scale is the float RN(a / vmax), not a power of two
  rceil_fp32,  // v = RN(a * RN(1/vmax)); E + 1 if M != 0 (E = 0: if M > 0x400000), else E
  rceil_ftz,   // as rceil_fp32, with a subnormal v flushed to zero
  rceil_log2,  // ceil(RN(log2(RN(a / vmax))))
  rceil_bits,  // (bits(RN(a / vmax)) + 0x7FFFFF) >> 23: any nonzero subnormal quotient becomes byte 1
  rceil_bits_mul,  // (bits(RN(a * RN(1/vmax))) + 0x7FFFFF) >> 23
  floor_fp32,      // v = RN(a * 2^-emax); E
  floor_log2,      // floor(RN(log2 a)) - emax
  e4m3,            // the scale is an E4M3 number below an FP32 scale of the tensor: numerics/scale/two_level.h
};

// The format of the scales that a rule makes.
constexpr Format format_of_scales(ScaleRule rule) {
  return rule == ScaleRule::fp32 ? Format::fp32 : rule == ScaleRule::e4m3 ? Format::e4m3 : Format::e8m0;
}

std::string_view to_text(ScaleRule rule);  // the names above
std::optional<ScaleRule> find_scale_rule(std::string_view name);

// The scale byte for a finite amax >= 0 (a sign is ignored), clamped to 0..255; 255 only through `even`'s carry and,
// for MXINT8, whose emax is 0, through `ceil` above 2^127 and `even_carry`. floor, ceil and even_carry take Inf for
// 2^128, whose byte is 255 - emax. ScaleRule::fp32 and e4m3 have no such byte: Error{internal}. Elements: any
// sign-exponent-mantissa format, or MXINT8.
std::uint8_t scale_byte(ScaleRule rule, Format element, float amax);

// CUDA's conversion of v >= 0 to E8M0 toward +Inf (cuda_fp8.h, cudaRoundPosInf): the smallest 2^(byte - 127) >= v.
std::uint8_t e8m0_round_up(float v);

// Reciprocal RN(1/vmax) and vmax of an element format as floats; vmax is exact for every element format.
float largest_value(Format element);
float reciprocal_of_largest_value(Format element);

// floor(RN(log2 x)) and ceil(RN(log2 x)) for finite x > 0, RN the correctly rounded FP32 logarithm: next to an integer
// n the logarithm of several floats rounds to n. In integers, so that no libm has a say in a scale.
//   floor_of_rounded_log2(0x1.fffff4p+8) == 8, floor_of_rounded_log2(0x1.fffff6p+8) == 9    (n = 9: five floats below)
int floor_of_rounded_log2(float x);
int ceil_of_rounded_log2(float x);

}  // namespace mxcheck
