// exp over every FP32, log1p and log where routers ask for them. The second side is the C library's long double, whose
// error is below 2^-62 of the result; where that is too near to halfway between two FP32, 100 digits decide.

#include <gtest/gtest.h>

#include <atomic>
#include <cfloat>
#include <chrono>
#include <iostream>

#include "numerics/elementary/elementary.h"
#include "numerics/sweep.h"
#include "tests/numerics/elementary/multiprecision.h"

namespace mxcheck {
namespace {

using test::bits_of;
using test::float_of;
using test::nearest_float;
using test::Real;

constexpr unsigned kThreads = 2;
constexpr bool kWideEnough = LDBL_MANT_DIG >= 64;

// `digits` is used where `value` is too near to halfway.
template <class Digits>
float nearest_to(long double value, std::atomic<std::uint64_t>& asked, const Digits& digits) {
  const long double margin = value * 0x1p-58L;
  const auto low = static_cast<float>(value - margin);
  if (bits_of(low) == bits_of(static_cast<float>(value + margin))) return low;
  ++asked;
  return nearest_float(digits());
}

// Sweeps f over [begin, end) and compares with expected(x, asked).
template <class Function, class Expected>
void expect_equal(const char* what, std::uint64_t begin, std::uint64_t end, Function f, Expected expected) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> asked{0};
  const SweepResult result = sweep(begin, end, kThreads, [&](std::uint32_t pattern) {
    const float x = float_of(pattern);
    return bits_of(f(x)) == bits_of(expected(x, asked));
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::cout << "[  SECONDS ] " << taken.count() << " " << what << ", " << asked << " by 100 digits" << std::endl;
  EXPECT_EQ(result.checked, end - begin);
  EXPECT_EQ(result.mismatches, 0U) << "first at 0x" << std::hex << result.first;
}

TEST(Exhaustive, exp_of_every_fp32_is_correctly_rounded) {
  if (!kWideEnough) GTEST_SKIP() << "long double has too few bits";
  expect_equal("exp over 2^32 FP32", 0, kAllPatterns, exp_rn, [](float x, std::atomic<std::uint64_t>& asked) {
    if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
    if (x > 88.8F) return std::numeric_limits<float>::infinity();  // exp(88.73) > 2^128
    if (x < -104) return 0.0F;                                     // exp(-103.98) < 2^-150
    if (std::fabs(x) < 0x1p-26F) return 1.0F;                      // nearer to 1 than half its spacing
    return nearest_to(std::exp(static_cast<long double>(x)), asked, [x] { return exp(Real(x)); });
  });
}

TEST(Exhaustive, log1p_of_every_fp32_from_0_to_1_is_correctly_rounded) {
  if (!kWideEnough) GTEST_SKIP() << "long double has too few bits";
  expect_equal("log1p over [0, 1]", 0, bits_of(1.0F) + 1, log1p_rn, [](float x, std::atomic<std::uint64_t>& asked) {
    if (x < 0x1p-26F) return x;  // x^2 / 2 is below a quarter of its spacing
    return nearest_to(std::log1p(static_cast<long double>(x)), asked, [x] { return log(1 + Real(x)); });
  });
}

TEST(Exhaustive, log_of_every_fp32_from_1_to_4096_is_correctly_rounded) {
  if (!kWideEnough) GTEST_SKIP() << "long double has too few bits";
  expect_equal("log over [1, 4096]", bits_of(1.0F), bits_of(4096.0F) + 1, log_rn,
               [](float x, std::atomic<std::uint64_t>& asked) {
                 if (x == 1) return 0.0F;
                 return nearest_to(std::log(static_cast<long double>(x)), asked, [x] { return log(Real(x)); });
               });
}

}  // namespace
}  // namespace mxcheck
