// The chance of paired errors: never small for a candidate that is not worse, no smaller than the true one for one that
// is worse as often as is allowed, small for one that is worse.

#include "numerics/measure/paired_errors.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// n pairs, the candidate the worse one in so many of 100.
PairedErrors drawn(int n, double percent, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  PairedErrors pairs;
  for (int i = 0; i < n; ++i) {
    const double apart = uniform(random) * std::pow(2.0, -static_cast<int>(random() % 20));
    const bool is_worse = 100 * uniform(random) < percent;
    pairs.add(is_worse ? apart : 0, is_worse ? 0 : apart);
  }
  return pairs;
}

TEST(PairedErrors, of_a_candidate_that_is_the_other_or_never_worse_have_a_chance_of_one) {
  PairedErrors same, better;
  for (int i = 0; i < 10'000; ++i) {
    same.add(i * 1e-5, i * 1e-5);
    better.add(i % 3 * 0.0, i * 1e-5);
  }
  EXPECT_EQ(same.log_chance(), 0);
  EXPECT_EQ(same.differing(), 0);
  EXPECT_EQ(same.pairs(), 10'000);
  EXPECT_EQ(better.worse(), 0);
  EXPECT_EQ(better.log_chance(), 0);
  EXPECT_EQ(PairedErrors().log_chance(), 0);
}

TEST(PairedErrors, that_are_all_worse_have_the_chance_of_so_many_throws) {
  PairedErrors pairs;
  for (int i = 0; i < 50; ++i) pairs.add(2e-3 * std::pow(2.0, -i % 7), 1e-3 * std::pow(2.0, -i % 7));
  // Logarithms near -30 and errors near 1e-3 in FP64, after 50 sums: their roundings are below 1e-12 and 1e-17.
  EXPECT_NEAR(pairs.log_chance_of_signs(), 50 * std::log(PairedErrors::kMostWorse), 1e-9);
  EXPECT_NEAR(pairs.log_chance(), 50 * std::log(PairedErrors::kMostWorse) + std::log(2.0), 1e-9);
  EXPECT_NEAR(pairs.mean_candidate(), 2 * pairs.mean_other(), 1e-12);
  for (const double level : {0.1, 1e-9, 1e-12}) {
    const std::int64_t n = PairedErrors::fewest(std::log(level));
    EXPECT_LT(2 * std::pow(PairedErrors::kMostWorse, n), level);
    EXPECT_GE(2 * std::pow(PairedErrors::kMostWorse, n - 1), level);
  }
}

// The exact tail of the binomial distribution, and the means of signs drawn.
TEST(PairedErrors, bound_the_chance_of_what_is_worse_as_often_as_may_be) {
  for (const int n : {1, 7, 40, 200}) {
    for (int w = n / 2; w <= n; ++w) {
      double tail = 0;
      for (int k = w; k <= n; ++k) {
        tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                         k * std::log(PairedErrors::kMostWorse) + (n - k) * std::log(1 - PairedErrors::kMostWorse));
      }
      PairedErrors pairs;
      for (int k = 0; k < n; ++k) pairs.add(k < w ? 0.5 : 0.25, k < w ? 0.25 : 0.5);
      EXPECT_GE(std::exp(pairs.log_chance_of_signs()) * (1 + 1e-9), tail) << w << " of " << n;
    }
  }
  std::mt19937_64 random(1);
  constexpr int kRuns = 4000;
  for (const double level : {0.2, 0.05, 0.01}) {
    int signs = 0, means = 0, either = 0;
    for (int i = 0; i < kRuns; ++i) {
      const PairedErrors pairs = drawn(150, 100 * PairedErrors::kMostWorse, random);
      signs += pairs.log_chance_of_signs() < std::log(level), means += pairs.log_chance_of_means() < std::log(level);
      either += pairs.log_chance() < std::log(level);
    }
    const double most = kRuns * level + 4 * std::sqrt(kRuns * level);
    EXPECT_LE(signs, most) << level;
    EXPECT_LE(means, most) << level;
    EXPECT_LE(either, most) << level;
  }
}

TEST(PairedErrors, tell_many_small_losses_and_few_large_ones) {
  std::mt19937_64 random(2);
  EXPECT_GT(drawn(4000, 55, random).log_chance(), std::log(1e-9));
  EXPECT_LT(drawn(4000, 65, random).log_chance(), std::log(1e-9));
  PairedErrors few;  // better in nine of ten, and a hundred times worse in the other
  for (int i = 0; i < 2000; ++i) few.add(i % 10 == 0 ? 1e-2 : 1e-4, i % 10 == 0 ? 1e-4 : 2e-4);
  EXPECT_EQ(few.log_chance_of_signs(), 0);
  EXPECT_LT(few.log_chance_of_means(), std::log(1e-9));
}

TEST(PairedErrors, of_nan_are_the_largest) {
  PairedErrors pairs, other;
  for (int i = 0; i < 100; ++i) pairs.add(kNan, 1e-3), other.add(1e-3, kNan);
  EXPECT_EQ(pairs.worse(), 100);
  EXPECT_EQ(pairs.mean_candidate(), 1);
  EXPECT_LT(pairs.log_chance(), std::log(1e-9));
  EXPECT_EQ(other.log_chance(), 0);
  PairedErrors both;
  both.add(kNan, kNan), both.add(std::numeric_limits<double>::infinity(), 7);
  EXPECT_EQ(both.differing(), 0);
}

TEST(PairedErrors, that_what_computed_them_may_have_made_are_none) {
  PairedErrors pairs;
  pairs.add(1e-3 + 1e-12, 1e-3, 1e-11), pairs.add(1e-3 + 1e-10, 1e-3, 1e-11);
  EXPECT_EQ(pairs.pairs(), 2);
  EXPECT_EQ(pairs.differing(), 1);
}

}  // namespace
}  // namespace mxcheck
