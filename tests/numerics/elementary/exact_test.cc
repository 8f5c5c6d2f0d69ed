#include "numerics/elementary/exact.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/numerics/elementary/multiprecision.h"

namespace mxcheck {
namespace {

using test::bits_of;
using test::exp_by_digits;
using test::log1p_by_digits;
using test::log_by_digits;

// The second step of elementary.cc alone, on what the first would settle too.
TEST(ExactStep, is_nearest_to_100_digits) {
  std::mt19937 engine(13);
  for (int i = 0; i < 3000; ++i) {
    const float x = std::ldexp(1 + static_cast<float>(engine() >> 9) * 0x1p-23F, static_cast<int>(engine() % 30) - 24);
    EXPECT_EQ(bits_of(exact_exp(x)), bits_of(exp_by_digits(x))) << std::hexfloat << x;
    EXPECT_EQ(bits_of(exact_exp(-x)), bits_of(exp_by_digits(-x))) << std::hexfloat << -x;
    int n = 0;
    const double f = 2 * std::frexp(static_cast<double>(x), &n) - 1;
    if (f >= 0.5) continue;
    EXPECT_EQ(bits_of(exact_log(f, n - 1)), bits_of(log_by_digits(x))) << std::hexfloat << x;
    EXPECT_EQ(bits_of(exact_log(f, 0)), bits_of(log1p_by_digits(static_cast<float>(f)))) << std::hexfloat << f;
  }
}

}  // namespace
}  // namespace mxcheck
