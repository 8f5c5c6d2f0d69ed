#pragma once
// Scales of a tensor under which a divisor of an NVFP4 recipe has a mantissa at an end of a binade.
//
// A kernel divides by an approximate reciprocal and one Newton step, r + r * (1 - d * r) in fused operations. From the
// number below 1 / d this is the correctly rounded reciprocal of every FP32 number d but those whose mantissa is all
// ones: 1 / d lies above 0.5 * (1 + 2^-24) times a power of two, so that RN(1 / d) is 0.5 * (1 + 2^-23) times it, and
// the step stays at 0.5. Random scales never have such a divisor: it is one word in 2^23.

#include <array>
#include <cstdint>

#include "numerics/scale/recipe.h"

namespace mxcheck {

// Mantissas of divisors: all ones, the same without the last bit, one, the next number, and 1.000002.
inline constexpr std::array<std::uint32_t, 5> kDivisorMantissas{0x7FFFFF, 0x7FFFFE, 0, 1, 16};

// The divisor of elements under the stored scale of a tensor, in a block whose scale is b: RN(b * s), or as the recipe
// has it; recipes that divide by b alone have the quotient S / b here.
float element_divisor(const TwoLevel& levels, float stored, float b);

// One of the divisors in blocks of E4M3 scales has one of these mantissas; `stored` is positive and finite.
bool has_divisor_at_an_end(const TwoLevel& levels, float stored);

struct DivisorScale {
  std::uint32_t stored = 0;  // its bits
  float b = 1;               // the block's scale, 1 to 1.875, whose divisor has the mantissa
};
// A stored scale near 2^exponent (as one by which products are multiplied) whose divisor has kDivisorMantissas[which].
DivisorScale scale_of_divisor(const TwoLevel& levels, std::size_t which, int exponent, std::uint64_t word);

}  // namespace mxcheck
