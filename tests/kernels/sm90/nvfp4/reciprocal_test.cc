// The reciprocal of kernels/sm90/nvfp4/reciprocal.cuh, compiled for the host, of every mantissa and every start that is
// within an ulp, against the processor's division.

#include "kernels/sm90/nvfp4/reciprocal.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace {

namespace sm90 = mxcheck_kernels::sm90;

constexpr std::uint32_t kMantissas = 1U << 23;

// Numbers with this exponent whose reciprocal is wrong from a start within an ulp; every step-th, from the last on.
struct Wrong {
  int count = 0;
  float example = 0;
};
template <class Reciprocal>
Wrong wrong_with(int exponent, std::uint32_t step, const Reciprocal& reciprocal) {
  Wrong wrong;
  for (std::uint32_t left = kMantissas; left > 0; left -= std::min(left, step)) {
    const std::uint32_t mantissa = left - 1;
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23 | mantissa);
    const float right = 1 / x;
    const double ulp = std::ldexp(1.0, -exponent - (mantissa == 0 ? 23 : 24));
    bool good = true;
    for (const int by : {-2, -1, 0, 1, 2}) {
      const auto near = std::bit_cast<float>(std::bit_cast<std::uint32_t>(right) + static_cast<std::uint32_t>(by));
      if (std::fabs(static_cast<double>(near) - 1 / static_cast<double>(x)) > ulp) continue;
      good = good && reciprocal(x, near) == right;
    }
    if (!good) ++wrong.count, wrong.example = x;
  }
  return wrong;
}

TEST(Sm90Nvfp4Reciprocal, is_correctly_rounded_for_every_mantissa) {
  for (const int exponent : {-125, 0, 124}) {
    const Wrong wrong = wrong_with(exponent, exponent == 0 ? 1 : 61, sm90::reciprocal_from);
    EXPECT_EQ(wrong.count, 0) << exponent << ": " << std::hexfloat << wrong.example;
  }
}

// The starts above are enough to tell: the step without the square fails at one mantissa.
TEST(Sm90Nvfp4Reciprocal, a_newton_step_alone_is_wrong_where_the_mantissa_is_all_ones) {
  const Wrong wrong =
      wrong_with(0, 1, [](float x, float near) { return sm90::fused(near, sm90::fused(-x, near, 1.0F), near); });
  EXPECT_EQ(wrong.count, 1);
  EXPECT_EQ(wrong.example, 0x1.fffffep0F);
}

}  // namespace
