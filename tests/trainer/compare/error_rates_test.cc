// The rule's error rates, by simulation through the functions that decide: experiments whose differences are normal
// with a known true gap.

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "trainer/compare/verdict.h"

namespace mxcheck {
namespace {

constexpr int kExperiments = 10'000;
constexpr double kMargin = 0.0010;
constexpr double kAlpha = 0.05;

// By Box and Muller from a specified engine: the library's distributions are not specified to the bit.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }  // of (0, 1)
  std::mt19937_64 engine_;
};

struct Shares {
  double not_inferior = 0;  // non-inferior or equivalent
  double equivalent = 0;
  double inferior = 0;
};

Shares simulate(double gap, double deviation, std::size_t pairs, std::uint64_t seed) {
  Normal normal(seed);
  std::vector<double> d(pairs);
  Shares shares;
  for (int i = 0; i < kExperiments; ++i) {
    for (double& x : d) x = gap + deviation * normal();
    const ArmVerdict v = judge({.interval = paired_interval(d, kAlpha)}, kMargin, {"", ""}).verdict;
    constexpr double kOne = 1.0 / kExperiments;
    if (v == ArmVerdict::equivalent) shares.equivalent += kOne;
    if (v == ArmVerdict::equivalent || v == ArmVerdict::non_inferior || v == ArmVerdict::improved)
      shares.not_inferior += kOne;
    if (v == ArmVerdict::inferior) shares.inferior += kOne;
  }
  return shares;
}

// A share of kExperiments with probability p is further from p than this with probability below 1e-5: 4.42 standard
// deviations of a binomial, which is near to normal here.
double bound(double p) { return 4.42 * std::sqrt(p * (1 - p) / kExperiments); }

TEST(ErrorRates, a_gap_of_the_margin_passes_in_alpha_of_experiments) {
  std::uint64_t seed = 1;
  for (const std::size_t pairs : {5U, 8U, 11U}) {
    for (const double deviation : {0.0002, 0.0010}) {
      const Shares s = simulate(kMargin, deviation, pairs, seed++);
      EXPECT_NEAR(s.not_inferior, kAlpha, bound(kAlpha)) << pairs << " pairs, deviation " << deviation;
      EXPECT_LE(s.equivalent, kAlpha + bound(kAlpha));
      EXPECT_NEAR(s.inferior, kAlpha, bound(kAlpha));
    }
  }
}

TEST(ErrorRates, no_gap_is_called_inferior_in_fewer_than_alpha_of_experiments) {
  EXPECT_LE(simulate(0, 0.0010, 5, 21).inferior, kAlpha + bound(kAlpha));
}

// The rows of the table of docs/parity_rule.md with five pairs or more: with so many the power is 0.9 or more, with one
// fewer it is less. Where that is below five, the rule says inconclusive whatever the interval.
TEST(ErrorRates, power_is_that_of_the_table_of_seeds) {
  struct Row {
    double margin_in_deviations;  // of d
    std::size_t pairs;
  };
  std::uint64_t seed = 31;
  for (const Row& row : {Row{1.5, 6}, Row{1.2, 8}, Row{1.0, 11}, Row{1.2 / std::sqrt(0.4), 5}}) {
    const double deviation = kMargin / row.margin_in_deviations;
    const Shares s = simulate(0, deviation, row.pairs, seed++);
    EXPECT_GE(s.not_inferior, 0.9 - bound(0.9)) << row.pairs;
    EXPECT_NEAR(s.not_inferior, power_of(static_cast<std::int64_t>(row.pairs), kMargin, deviation, kAlpha), bound(0.9))
        << row.pairs;
    const Shares fewer = simulate(0, deviation, row.pairs - 1, seed++);
    if (row.pairs - 1 < static_cast<std::size_t>(kLeastPairs))
      EXPECT_EQ(fewer.not_inferior, 0);
    else
      EXPECT_LE(fewer.not_inferior, 0.9 + bound(0.9)) << row.pairs;
  }
}

}  // namespace
}  // namespace mxcheck
