#pragma once
// The numbers of an operand in NVFP4: the tensor's scale, a block's, and the values of elements. BF16 comes in, and the
// values code * block scale go out, which BF16 holds exactly (six significant bits), without their codes.
//
// Two recipes of docs/nvfp4.md: nvfp4_te, rounded to nearest or by a random word, and nvfp4_46. Each operation is
// rounded once to FP32; let amax be the tensor's largest magnitude, a the block's.
//
//   nvfp4_te   S = min(RN(2688 / amax), FLT_MAX), 1 where amax or that is 0;  b = E4M3(RN(a RN(S RN(1/6))))
//              v = RN(x f), f = RN(1 / RN(b RN(1 / S))), at most FLT_MAX. NaN does not count in amax and a.
//   nvfp4_46   S = RN(1536 / amax), 1 where amax is 0;  b = E4M3(RN(RN(a / 6) S)), or that quotient times 1.5
//              v = RN(x f), f = RN(1 / RN(b RN(1 / S))), 0 where b is 0. A block with NaN is NaN.
//
// A code is found as its value: v rounded to a multiple of the distance between codes, which is 1/2 below 2, 1 below 4
// and 2 up to 6. tests/kernels/sm90/moe/two_level_values_test.cc compares all of it with the definition.

#include <cstdint>

#include "kernels/sm90/common/four_over_six.cuh"
#include "kernels/sm90/layer/steps/words.cuh"

namespace mxcheck_kernels::sm90 {

// L * 6, by which an outer scale divides the amax: L is 448, and 256 under Four Over Six (kFourOverSixUnit).
inline constexpr float kAmaxUnit = 2688;

inline constexpr std::uint32_t kInfinityBf16 = 0x7F80;
inline constexpr std::uint32_t kFp32Exponent = 0x7F800000;
inline constexpr std::uint32_t kLargestFp32 = 0x7F7FFFFF;

MXCHECK_EITHER bool is_nan(float x) { return (bits_of(x) & 0x7FFFFFFF) > kFp32Exponent; }

struct TensorScale {
  float amax = 0;
  float encode = 1;       // S
  float decode = 1;       // RN(1 / S)
  float unit = 1;         // RN(amax / 1536), under nvfp4_46
  bool near_one = false;  // amax is 0, or from 2^-56 to 2^56
};

// amax: the bits of a BF16 magnitude. Under nvfp4_te it is no NaN.
MXCHECK_EITHER TensorScale tensor_scale_of(bool four_over_six, std::uint32_t amax) {
  TensorScale s;
  s.amax = float_of(amax << 16);
  s.encode = quotient(four_over_six ? kFourOverSixUnit : kAmaxUnit, s.amax);
  if (amax == 0 || (!four_over_six && s.encode == 0)) s.encode = 1;
  if (!four_over_six && bits_of(s.encode) > kLargestFp32) s.encode = float_of(kLargestFp32);
  s.decode = quotient(1, s.encode);
  if (four_over_six) s.unit = quotient(s.amax, kFourOverSixUnit);
  s.near_one = s.amax == 0 || (s.amax >= 0x1p-56F && s.amax <= 0x1p56F);
  return s;
}

// The value of E4M3 next to q, which is 0 or more or NaN: ties to even, at most 448.
MXCHECK_EITHER float e4m3_value_of(float q) {
  if (is_nan(q)) return q;
  if (q >= 448) return 448;
  constexpr std::uint32_t kLowestNormal = 0x3C800000;  // 2^-6
  const std::uint32_t binade = bits_of(q) & kFp32Exponent;
  const std::uint32_t steps = (binade > kLowestNormal ? binade : kLowestNormal) - (3U << 23);  // 2^k / 8
  const float inverse = float_of((254U << 23) - steps);
  return product(nearest_integer(product(q, inverse)), float_of(steps));
}

// b. amax: the bits of a BF16 magnitude, a NaN of one that counts. stretch is 1 or 1.5.
MXCHECK_EITHER float block_scale_of(bool four_over_six, const TensorScale& outer, std::uint32_t amax, float stretch) {
  const float a = float_of(amax << 16);
  if (!four_over_six) return e4m3_value_of(product(a, product(outer.encode, 1.0F / 6.0F)));
  return e4m3_value_of(product(product(quotient(a, 6), outer.encode), stretch));
}

MXCHECK_EITHER float factor_of(bool four_over_six, const TensorScale& outer, float b) {
  if (four_over_six && b == 0) return 0;
  const float f = reciprocal(product(b, outer.decode));
  if (!four_over_six && !(f < float_of(kLargestFp32))) return float_of(kLargestFp32);
  return f;
}

// ---- Below a tensor's scale that is near_one ----
//
// b and the factor as above, in fewer operations: all numbers are normal, but for those that are far below what rounds
// to a b of more than 0. The factor of b = 0 is 0: all values are 0 whatever it is. amax is at most the tensor's, or
// NaN: b is NaN then, and so is the factor.
struct NearScale {
  float b;
  float factor;
};

// RN to E4M3 of q, which rounds to 448 at most.
MXCHECK_EITHER float e4m3_below_464(float q) {
  const float s = float_of(bits_of(larger(q, 0x1p-6F)) & kFp32Exponent);
  return fused(s, -0x1p20F, fused(s, 0x1p20F, q));
}
MXCHECK_EITHER NearScale near_scale_of(bool four_over_six, const TensorScale& outer, std::uint32_t amax,
                                       float stretch) {
  const float a = float_of(amax << 16);
  float q = product(a, product(outer.encode, 1.0F / 6.0F));
  if (four_over_six) q = product(product(quotient_by(a, 6, 1.0F / 6.0F), outer.encode), stretch);
  const float b = e4m3_below_464(q);
  return {b, b == 0 ? 0.0F : reciprocal(product(b, outer.decode))};
}

// ---- Elements ----

// The value of x's code: v = RN(x * factor) rounded to nearest, ties to even, or with a carry of the word added to the
// first 32 bits of the fraction that is discarded. A NaN is 6.
template <bool kStochastic>
MXCHECK_EITHER float code_value_of(float x, float factor, std::uint32_t word) {
  const float v = product(x, factor);
  if (is_nan(v)) return 6;
  float m = magnitude_of(v);
  if (m > 6) m = 6;
  const float step = m < 2 ? 0.5F : (m < 4 ? 1.0F : 2.0F);
  const float scaled = product(m, m < 2 ? 2.0F : (m < 4 ? 1.0F : 0.5F));
  float count = nearest_integer(scaled);
  if constexpr (kStochastic) {
    const std::uint32_t below = integer_below(scaled);
    const std::uint32_t fraction = integer_below(product(sum_of(scaled, -static_cast<float>(below)), 0x1p32F));
    count = static_cast<float>(below + (fraction + word < fraction ? 1 : 0));
  }
  return float_of(bits_of(product(count, step)) | (bits_of(v) & 0x80000000));
}

// The same of a magnitude m = |v| that is no NaN: what is below it in steps of s / 2, as in e2m1_below_7, and what is
// left of a step.
MXCHECK_EITHER float e2m1_by_word(float m, std::uint32_t word) {
  m = smaller(m, 6);
  const std::uint32_t s = bits_of(larger(m, 1)) & kFp32Exponent;
  const float below = fused(float_of(s), -0x1p22F, fused_toward_zero(float_of(s), 0x1p22F, m));
  const float two_to_33_by_s = float_of((287U << 23) - s);
  const std::uint32_t fraction = integer_below(product(sum_of(m, -below), two_to_33_by_s));
  return fraction + word < fraction ? fused(float_of(s), 0.5F, below) : below;
}

}  // namespace mxcheck_kernels::sm90
