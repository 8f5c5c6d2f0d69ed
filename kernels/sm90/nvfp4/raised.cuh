#pragma once
// E2M1 codes by two additions, with a constant on top: eight of them join by multiply-adds, and the constant goes last.
// And errors of codes, from which Four Over Six is decided. For the host too, where a test compares all of it with the
// definition (tests/kernels/sm90/nvfp4/raised_test.cc).
//
// kernels/sm90/common/four_over_six.cuh has the definition, and a bound with the errors |x| - r h. Here they are those
// of the values that become codes, v = RN(|x| f), in units of g = amax / 1536, so that nothing but codes is computed:
//
//   d = v - r, which is exact;  D = b b times the sum of d d, fused, in any order
//
// With the names of that header, and A in units of g too: f = RN(1 / RN(b RN(1 / RN(1536 / amax)))) and v have five
// roundings, so that d b is off from t by at most 5 u |x| <= 5 u A; e is by 2 u A + 3 u |t|. Hence
//
//   |e - d b| <= 7 u A + 3 u |t|,  |e e - d b d b| <= 14 u A |t| + 6 u t t <= (7 / 8) u A A + 62 u t t
//
// as |t| <= A / 16 + 4 t t / A. With n roundings of E and n + 1 of D, the difference of two scales' E and that of their
// D are less than
//
//   u ((7 / 4) n A A + (63 + 2 n) (T4 + T6))
//
// apart. distance_of_codes() is 5/4 of that, with D for T and RN(largest * S) for A: the quarter is more than all terms
// of second order. is_ordinary() is that header's: within it no f underflows, v does where an error of 2^-150 is
// nothing beside u, and what underflows in e and E is said there. Neither scale may be 0: all v are 0 then, and so is
// D, but the errors are x.

#include <cstdint>

#include "kernels/sm90/common/either.cuh"
#include "kernels/sm90/common/four_over_six.cuh"

#ifndef __CUDACC__
  #include <algorithm>
#endif

namespace mxcheck_kernels::sm90 {

// The code of a magnitude below 7, plus kRaised. encode.cuh says why it is the lesser of two sums.
inline constexpr std::uint32_t kRaised = 0x4B000000U - 4;
MXCHECK_EITHER std::uint32_t raised_code(float m) {
  const std::uint32_t lower = bits_of(sum_of(m, 0x1p23F - 2));
  const std::uint32_t upper = bits_of(sum_of(m, 0x1p24F));
#ifdef __CUDACC__
  return static_cast<std::uint32_t>(__viaddmin_s32(static_cast<int>(upper), -0x800000, static_cast<int>(lower)));
#else
  return std::min(upper - 0x800000U, lower);
#endif
}

// Eight codes without signs, from the sum of raised ones times powers of 16. signs: those of bits 3, 7, 11 ..
MXCHECK_EITHER std::uint32_t lowered(std::uint32_t sum, std::uint32_t signs) {
  return sum + (signs & 0x88888888U) - kRaised * 0x11111111U;
}

// The value of a raised code times 2^-126: FP32 of so small a magnitude is E2M1 with zeros after it. tiny_code: 2^22.
inline constexpr float kOfTiny = 0x1p126F;
MXCHECK_EITHER float tiny_value(std::uint32_t raised, std::uint32_t tiny_code) {
  return float_of(raised * tiny_code - (kRaised << 22));
}
MXCHECK_EITHER float value_of_raised(std::uint32_t raised) { return product(tiny_value(raised, 1U << 22), kOfTiny); }

// Adds d d of an element's value m to a sum.
MXCHECK_EITHER float with_error(float sum, float m, std::uint32_t raised, std::uint32_t tiny_code) {
  const float d = fused(tiny_value(raised, tiny_code), -kOfTiny, m);
  return fused(d, d, sum);
}
// D. b: the scale, of which a square is exact.
MXCHECK_EITHER float error_of_codes(float b, float sum) { return product(product(b, b), sum); }

MXCHECK_EITHER float distance_of_codes(float a, float of_four, float of_six, int n) {
  const auto count = static_cast<float>(n);
  return 0x1.4p-24F * (1.75F * count * a * a + (63 + 2 * count) * (of_four + of_six));
}

// True if the above holds of a block with these factors of its two scales, which are 0 where the scales are.
MXCHECK_EITHER bool codes_may_decide(float amax, float largest, float of_four, float of_six) {
  return of_six != 0 && of_four != 0 && is_ordinary(amax, largest, {of_four, 0}, {of_six, 0});
}

// a: A in units of g.
MXCHECK_EITHER Stretch choice_by_codes(float a, float of_four, float of_six, int n) {
  const float difference = sum_of(of_four, -of_six);
  if (!(magnitude_of(difference) > distance_of_codes(a, of_four, of_six, n))) return Stretch::by_definition;
  return difference < 0 ? Stretch::four : Stretch::six;
}

}  // namespace mxcheck_kernels::sm90
