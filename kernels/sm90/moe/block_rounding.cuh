#pragma once
// BF16 to the values of a block format, two neighbours in a word, without their codes.
//
// x is rounded where it is, not as a quotient by the scale. Let 2^e be the scale, m the format's mantissa bits, 2^b its
// lowest normal number. Codes times 2^e are multiples of 2^(k - m) in the binade from 2^k on, and of 2^(e + b - m)
// below 2^(e + b). With S = max(2^k, 2^(e + b)), k being x's exponent, and C = S 2^(7 - m), |x| + C lies from C to 2 C,
// where the step of BF16's 8 bits is that of the codes, and C is an even number of steps. So RN(|x| + C) - C is the
// code's value, ties to even, and the subtraction is exact: rounding by adding a constant, as numbers are
// rounded to integers (Muller et al., Handbook of Floating-Point Arithmetic). A cast to E4M3 and back with its FP32
// products is 11 instructions of two elements; this is 5. tests/kernels/sm90/moe/rounding_test.cc compares it with the
// definition.
//
// S must be a normal number and C finite. not_ordinary() says which blocks are without: an amax below 2^-112 (E4M3;
// 2^-97 E5M2 and E5M6, 2^-120 E3M2, 2^-124 E2M1 and E2M3) but no zero, from 2^120 on, Inf or NaN. Those take the second
// half of this file, which follows the definition in FP32.
//
// deepgemm_host (docs/numerics.md) raises amax to 1e-4. A BF16 is below that if it is at most 0x38D1, and the rule
// gives 0x38D1 and 1e-4 the same byte. A block with Inf or NaN has byte 254 there and does not become NaN as a whole:
// numbers are x 2^-127, rounded, times 2^127; E2M1, which has no other code for either, makes 6 * 2^127 of both, Inf in
// BF16.

#include <cstdint>

#include "kernels/sm90/layer/steps/words.cuh"

namespace mxcheck_kernels::sm90 {

// A format: its largest value in BF16, and what an encoder that does not saturate makes of NaN and Inf, in FP32.
struct RoundTarget {
  std::int32_t mantissa_bits;
  std::int32_t bias;
  std::uint32_t largest;
  std::uint32_t of_nan;
  std::uint32_t of_inf;
};
inline constexpr RoundTarget kRoundE4m3{3, 7, 0x43E0, 0x7FC00000, 0x7FC00000};   // 448; neither has another code
inline constexpr RoundTarget kRoundE5m2{2, 15, 0x4760, 0x7FC00000, 0x7F800000};  // 57344
inline constexpr RoundTarget kRoundE2m1{1, 1, 0x40C0, 0x40C00000, 0x40C00000};   // 6, which both are
inline constexpr RoundTarget kRoundE2m3{3, 1, 0x40F0, 0x40F00000, 0x40F00000};   // 7.5, likewise
inline constexpr RoundTarget kRoundE3m2{2, 3, 0x41E0, 0x41E00000, 0x41E00000};   // 28, likewise
inline constexpr RoundTarget kRoundE5m6{6, 15, 0x477E, 0x7FC00000, 0x7F800000};  // 65024

// A rule as numbers. Words hold the same BF16 bits twice.
struct Rounding {
  std::uint32_t least;    // amax is raised to this
  std::uint32_t addend;   // rounds the exponent of amax up, or not
  std::uint32_t offset;   // from the largest binade's exponent to the lowest normal one's
  std::uint32_t largest;  // mantissa of the largest value
  std::uint32_t below;    // bit 15 of amax + below: is large enough for normal S, or raised
  std::uint32_t factor;   // 2^(7 - m)
  std::uint32_t minus_factor;

  // The fields from here on are of one element.
  std::uint32_t raised;         // amax is raised to this, whatever it is
  std::int32_t emax;            // exponent of the largest value
  std::uint32_t special_byte;   // where amax is NaN or Inf
  std::uint32_t lowest_normal;  // these are the bits of FP32
  std::uint32_t shift;          // 2^(23 - m)
  std::uint32_t largest_value;
  std::uint32_t of_nan;
  std::uint32_t of_inf;
};

inline constexpr std::uint32_t kTooLarge = 0x7B80;       // 2^120: C is finite below it
inline constexpr std::uint32_t kDeepgemmLeast = 0x38D1;  // the BF16 below 1e-4

MXCHECK_CONSTANT std::uint32_t twice(std::uint32_t half) { return half << 16 | half; }

// up: the exponent of amax / largest rounded up (rceil), or that of amax down (floor). deepgemm: as its host code.
constexpr Rounding rounding_of(const RoundTarget& to, bool up, bool deepgemm) {
  const std::int32_t emax = static_cast<std::int32_t>(to.largest >> 7) - 127;
  const auto binades = static_cast<std::uint32_t>(emax + to.bias) << 7;
  const auto power = [](std::int32_t n) { return static_cast<std::uint32_t>(n + 127); };
  const std::uint32_t factor = power(7 - to.mantissa_bits) << 7;
  Rounding r{};
  r.least = twice(deepgemm ? kDeepgemmLeast : binades);
  r.addend = up ? twice(0x7F - (to.largest & 0x7F)) : 0;
  r.offset = twice(binades - 0x80);
  r.largest = twice(to.largest & 0x7F);
  r.below = twice(deepgemm ? 0x8000 : 0x8000 - binades);
  r.factor = twice(factor);
  r.minus_factor = twice(factor | 0x8000);
  r.raised = deepgemm ? kDeepgemmLeast : 0;
  r.emax = emax;
  r.special_byte = deepgemm ? 254 : 255;
  r.lowest_normal = power(1 - to.bias) << 23;
  r.shift = power(23 - to.mantissa_bits) << 23;
  r.largest_value = to.largest << 16;
  r.of_nan = to.of_nan, r.of_inf = to.of_inf;
  return r;
}

// BF16 bits, one in each half, of the least S in blocks of these amax.
MXCHECK_EITHER std::uint32_t lowest_steps(const Rounding& rule, std::uint32_t amax) {
  return ((larger2(amax, rule.least) + rule.addend) & 0x7F807F80) - rule.offset;
}

// The format's largest value in blocks of these lowest_steps.
MXCHECK_EITHER std::uint32_t largest_of(const Rounding& rule, std::uint32_t lowest) {
  return (lowest + rule.offset) | rule.largest;
}

// Bits 15 and 31 of the halves whose block cannot be rounded by rounded2: sums of 15-bit halves, none carries.
MXCHECK_EITHER std::uint32_t not_ordinary(const Rounding& rule, std::uint32_t amax) {
  const std::uint32_t too_large = amax + twice(0x8000 - kTooLarge);
  const std::uint32_t not_zero = amax + twice(0x7FFF);
  return (too_large | (not_zero & ~(amax + rule.below))) & 0x80008000;
}

template <bool kSaturates>
MXCHECK_EITHER std::uint32_t rounded2(const Rounding& rule, std::uint32_t two, std::uint32_t lowest) {
  const std::uint32_t steps = larger2(two & 0x7F807F80, lowest);
  const std::uint32_t sum = fma2(steps, rule.factor, two & 0x7FFF7FFF);
  std::uint32_t value = fma2(steps, rule.minus_factor, sum);
  if constexpr (kSaturates) value = smaller2(value, largest_of(rule, lowest));
  return value | (two & 0x80008000);
}

// By the definition: the scale's byte of a BF16 amax, the value of x's code, and that times the scale.
MXCHECK_EITHER std::uint32_t exact_byte(const Rounding& rule, std::uint32_t amax) {
  if (amax >= 0x7F80) return rule.special_byte;
  const std::uint32_t a = amax > rule.raised ? amax : rule.raised;
  const auto byte = static_cast<std::int32_t>((a + (rule.addend & 0xFFFF)) >> 7) - rule.emax;
  return byte > 0 ? static_cast<std::uint32_t>(byte) : 0;
}

// 2^(n - 127) for n of 0 to 254.
MXCHECK_EITHER float power_of(std::uint32_t n) { return float_of(n == 0 ? 0x00400000 : n << 23); }

// v below 2^-126 may be a product that was rounded; it is zero to every format.
MXCHECK_EITHER float exact_value(const Rounding& rule, std::uint32_t x, std::uint32_t byte) {
  if (byte == 255) return float_of(0x7FC00000);
  const std::uint32_t magnitude = x & 0x7FFF;
  const std::uint32_t sign = (x & 0x8000) << 16;
  if (magnitude > 0x7F80) return float_of(rule.of_nan);
  if (magnitude == 0x7F80) return float_of(rule.of_inf | sign);
  const float v = product(float_of(magnitude << 16), power_of(254 - byte));
  const std::uint32_t binade = bits_of(v) & 0x7F800000;
  const float c = product(float_of(binade > rule.lowest_normal ? binade : rule.lowest_normal), float_of(rule.shift));
  const std::uint32_t value = bits_of(sum_of(sum_of(v, c), -c));
  return float_of((value < rule.largest_value ? value : rule.largest_value) | sign);
}

MXCHECK_EITHER std::uint32_t exact2(const Rounding& rule, std::uint32_t two, std::uint32_t amax) {
  const std::uint32_t low = exact_byte(rule, amax & 0xFFFF);
  const std::uint32_t high = exact_byte(rule, amax >> 16);
  return to_bf16x2(product(exact_value(rule, two & 0xFFFF, low), power_of(low == 255 ? 254 : low)),
                   product(exact_value(rule, two >> 16, high), power_of(high == 255 ? 254 : high)));
}

}  // namespace mxcheck_kernels::sm90
