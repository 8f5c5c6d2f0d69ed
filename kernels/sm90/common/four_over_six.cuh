#pragma once
// Four Over Six: which of a block's two scales is taken, without the definition's order of operations where that cannot
// matter. For the layers (moe/) and for quantization (nvfp4/).
//
// A block of n elements x has two scales b, of which one takes its largest magnitude A near 6, the other near 4. With
// r = |RN(x f)| rounded to a magnitude of E2M1, f being the scale's factor, the definition computes in FP32
//
//   e = RN(|x| - RN(RN(r b amax) / 1536)),   E = the sum of RN(e e), in order,
//
// and takes `four` if its E is less than that of `six`. (Signs of x and its code agree: they do not change e e.) Here
//
//   d = RN(|x| - r h), h = RN(b RN(amax / 1536)),   D = the sum of d d, fused, in any order,
//
// decides if its two sums are further apart than the following bound on what that changes. Let u = 2^-24, R = r b amax
// / 1536 and t = |x| - R without rounding, T the sum of t t. To first order in u:
//
//   e is off from t by at most 2 u R + u |t|, as is d; and R <= A + |t|.       So |e - d| <= 4 u A + 6 u |t|
//   |e e - d d| <= 2 |t| |e - d| <= 8 u A |t| + 12 u t t, and |t| <= A / 16 + 4 t t / A.  So <= u A A / 2 + 44 u t t
//   roundings of e e and of the n - 1 additions change E by at most n u T, those of D, n u T
//
// One scale's E and D are then less than u (n A A / 2 + (44 + 2 n) T) apart, the difference of two scales' E and that
// of their D
//
//   u (n A A + (44 + 2 n) (T4 + T6)).
//
// distance_of() is 5/4 of that, with D for T: the quarter is more than all terms of second order, which are below
// 1000 u of this, and than what underflows: with A and amax from 2^-56 to 2^56, n <= 256, at most 2^-148 in e and d and
// 2^-150 in each square, far below u A A. In a block of ordinary numbers D is about A A / 40, so that two sums are
// within 2^-19 A A once in some thousand blocks. Those, and those without is_ordinary(), are compared by the
// definition. tests/kernels/sm90/common/four_over_six_test.cc compares all of it with the definition.

#include <cstdint>

#include "kernels/sm90/common/either.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr float kFourOverSixUnit = 1536;  // 256 * 6, by which the amax is divided

// ---- The definition ----

// The square of the error of an element whose code stands for `value`, the tensor's scale apart.
MXCHECK_EITHER float squared_error(float x, float value, float amax) {
  const float error = sum_of(x, -quotient(product(value, amax), kFourOverSixUnit));
  return product(error, error);
}

// ---- Less ----

// RN to E2M1 of a magnitude below 7. Codes are multiples of s / 2 from s on, s being a power of two, and 1 at least: of
// m + 2^22 s the last place is s / 2.
MXCHECK_EITHER float e2m1_below_7(float m) {
  const float s = float_of(bits_of(larger(m, 1)) & 0x7F800000);
  return fused(s, -0x1p22F, fused(s, 0x1p22F, m));
}

// One of a block's scales. f: by which elements are multiplied, 0 where b is.
struct SixOrFour {
  float factor;
  float height;  // h
};
MXCHECK_EITHER SixOrFour six_or_four(float b, float factor, float outer) { return {factor, product(b, outer)}; }

// Adds the square of an element's d to a sum, and returns r, exactly.
MXCHECK_EITHER float add_near(float magnitude, const SixOrFour& scale, float& sum) {
  const float r = e2m1_below_7(product(magnitude, scale.factor));
  const float d = fused(-r, scale.height, magnitude);
  sum = fused(d, d, sum);
  return r;
}

// True if the above holds of a block: `largest` is its largest magnitude, NaN if an element is.
MXCHECK_EITHER bool is_ordinary(float amax, float largest, const SixOrFour& four, const SixOrFour& six) {
  const bool in_range = amax >= 0x1p-56F && amax <= 0x1p56F && largest >= 0x1p-56F && largest <= 0x1p56F;
  return in_range && product(largest, four.factor) < 7 && product(largest, six.factor) < 7;
}

MXCHECK_EITHER float distance_of(float largest, float near_four, float near_six, int n) {
  const auto count = static_cast<float>(n);
  return 0x1.4p-24F * (count * largest * largest + (44 + 2 * count) * (near_four + near_six));
}

enum class Stretch : std::uint8_t { six, four, by_definition };
MXCHECK_EITHER Stretch stretch_of(float largest, float near_four, float near_six, int n) {
  const float difference = sum_of(near_four, -near_six);
  if (!(magnitude_of(difference) > distance_of(largest, near_four, near_six, n))) return Stretch::by_definition;
  return difference < 0 ? Stretch::four : Stretch::six;
}

}  // namespace mxcheck_kernels::sm90
