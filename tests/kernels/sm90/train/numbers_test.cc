// Numbers of a training step on Hopper that are not the device's own, compiled for the host: the logarithm of a token's
// loss, every MXCHECK_TRAIN_STEP-th argument that it can have (all where it is 1, label exhaustive), and the factor of
// scores.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/sm90/train/train_math.cuh"
#include "numerics/elementary/elementary.h"

namespace {

using mxcheck_kernels::sm90::digest_term, mxcheck_kernels::sm90::log_rn, mxcheck_kernels::sm90::score_scale;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(Sm90TrainNumbers, log_from_1_to_256_is_correctly_rounded) {
  for (std::uint32_t word = bits(1.0F); word <= bits(256.0F); word += MXCHECK_TRAIN_STEP) {
    const float x = std::bit_cast<float>(word);
    ASSERT_EQ(bits(log_rn(x)), bits(mxcheck::log_rn(x))) << std::hexfloat << x;
  }
}

// Around powers of two the table's entry changes, and around 1 the result is small.
TEST(Sm90TrainNumbers, log_is_correctly_rounded_where_its_table_changes) {
  for (float edge = 1.0F; edge <= 128.0F; edge *= 2) {
    for (int i = 0; i <= 64; ++i) {
      const std::uint32_t middle = bits(edge * (1.0F + static_cast<float>(i) / 64.0F));
      for (std::uint32_t word = std::max(middle - 200, bits(1.0F)); word < middle + 200; ++word) {
        const float x = std::bit_cast<float>(word);
        if (x > 256.0F) break;
        ASSERT_EQ(bits(log_rn(x)), bits(mxcheck::log_rn(x))) << std::hexfloat << x;
      }
    }
  }
  EXPECT_EQ(bits(log_rn(1.0F)), 0U);
  EXPECT_TRUE(std::isnan(log_rn(std::numeric_limits<float>::quiet_NaN())));
}

// 1 / sqrt(n) lies strictly between the midpoints around the number, by their squares: 50 bits times 13.
TEST(Sm90TrainNumbers, the_factor_of_scores_is_correctly_rounded_for_every_width) {
  for (int n = 1; n <= 8192; ++n) {
    const float scale = score_scale(n);
    int exponent = 0;
    const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(scale, &exponent), 25));  // in half ulps
    // (mantissa +- 1) * 2^(exponent - 25), squared, times n, is compared with 1.
    const int shift = 2 * (25 - exponent);
    const auto times = [&](std::uint64_t m) {
      return static_cast<unsigned __int128>(m * m) * static_cast<unsigned>(n);
    };
    const auto one = static_cast<unsigned __int128>(1) << shift;
    // Below a power of two numbers are closer: half a step there is half as much, and no such scale is rounded down.
    ASSERT_LE(times(mantissa - 1), one) << n;
    ASSERT_GT(times(mantissa + 1), one) << n;
    ASSERT_TRUE(!std::has_single_bit(mantissa) || times(mantissa) == one) << n;
  }
}

// Digests mix with SplitMix64's finalizer: 0 stays 0, and its increment gives the first word of the seed 0.
TEST(Sm90TrainNumbers, digests_are_splitmix64s) {
  EXPECT_EQ(mxcheck_kernels::sm90::digest_mix(0), 0U);
  EXPECT_EQ(mxcheck_kernels::sm90::digest_mix(0x9E3779B97F4A7C15), 0xE220A8397B1DCDAFU);
  EXPECT_EQ(digest_term(0, 0), mxcheck_kernels::sm90::digest_mix(mxcheck_kernels::sm90::digest_mix(1)));
}

}  // namespace
