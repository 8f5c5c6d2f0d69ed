#include "trainer/compare/interval.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "numerics/error.h"

namespace mxcheck {
namespace {

// Quantiles of Student's t as statistical tables print them: to three decimals.
TEST(StudentT, has_the_quantiles_of_the_printed_tables) {
  struct Entry {
    double p;
    std::int64_t freedom;
    double quantile;
  };
  for (const Entry& e : std::array{Entry{0.95, 1, 6.314}, Entry{0.95, 2, 2.920}, Entry{0.95, 4, 2.132},
                                   Entry{0.95, 9, 1.833}, Entry{0.95, 30, 1.697}, Entry{0.975, 4, 2.776},
                                   Entry{0.995, 4, 4.604}, Entry{0.995, 10, 3.169}, Entry{0.05, 4, -2.132}})
    EXPECT_NEAR(student_t_quantile(e.p, e.freedom), e.quantile, 5e-4) << e.p << " " << e.freedom;
}

// 1 ... 5: mean 3, deviation sqrt(10 / 4), half width 2.13185 * 1.58114 / sqrt(5) = 1.50745.
TEST(PairedInterval, equals_an_interval_computed_by_hand) {
  const PairedInterval i = paired_interval(std::array{1.0, 2.0, 3.0, 4.0, 5.0}, 0.05);
  EXPECT_EQ(i.pairs, 5);
  EXPECT_EQ(i.mean, 3);
  EXPECT_NEAR(i.deviation, 1.5811388, 1e-7);
  EXPECT_NEAR(i.lower, 3 - 1.50745, 1e-5);
  EXPECT_NEAR(i.upper, 3 + 1.50745, 1e-5);
}

TEST(PairedInterval, of_fewer_than_two_pairs_has_no_limits) {
  EXPECT_TRUE(std::isnan(paired_interval({}, 0.05).mean));
  const PairedInterval one = paired_interval(std::array{0.5}, 0.05);
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_TRUE(std::isnan(one.lower) && std::isnan(one.upper) && std::isnan(one.deviation));
}

TEST(PairedInterval, of_a_difference_that_is_no_number_is_none) {
  const PairedInterval i = paired_interval(std::array{1.0, std::numeric_limits<double>::quiet_NaN(), 2.0}, 0.05);
  EXPECT_TRUE(std::isnan(i.mean) && std::isnan(i.lower) && std::isnan(i.upper));
}

// The table of docs/parity_rule.md, margin over the deviation of a seed: for pairs of correlation 0.5 d deviates as
// much as a seed.
TEST(Power, needs_the_pairs_of_the_published_table) {
  struct Entry {
    double margin;
    std::int64_t pairs;
  };
  for (const Entry& e :
       std::array{Entry{6, 3}, Entry{3, 3}, Entry{2.4, 4}, Entry{2, 4}, Entry{1.5, 6}, Entry{1.2, 8}, Entry{1, 11}})
    EXPECT_EQ(pairs_needed(e.margin, 1, 0.05, 0.9), e.pairs) << e.margin;
  const double deviation = std::sqrt(0.4);  // for 0.8: sqrt(2 (1 - 0.8))
  for (const Entry& e :
       std::array{Entry{6, 2}, Entry{3, 3}, Entry{2.4, 3}, Entry{2, 3}, Entry{1.5, 4}, Entry{1.2, 5}, Entry{1, 6}})
    EXPECT_EQ(pairs_needed(e.margin, deviation, 0.05, 0.9), e.pairs) << e.margin;
}

TEST(Power, of_a_gap_of_zero_is_alpha) {
  for (const std::int64_t pairs : {2, 5, 20}) EXPECT_NEAR(power_of(pairs, 0, 1, 0.05), 0.05, 1e-9);
}

TEST(Power, visible_gap_is_where_the_power_is_reached) {
  for (const std::int64_t pairs : {2, 5, 40}) {
    const double gap = visible_gap(pairs, 3e-4, 0.05, 0.9);
    EXPECT_NEAR(power_of(pairs, gap, 3e-4, 0.05), 0.9, 1e-6) << pairs;
  }
}

TEST(Power, without_noise_sees_every_gap) {
  EXPECT_EQ(power_of(5, 1e-9, 0, 0.05), 1);
  EXPECT_EQ(visible_gap(5, 0, 0.05, 0.9), 0);
  EXPECT_EQ(pairs_needed(0.001, 0, 0.05, 0.9), 2);
  EXPECT_EQ(power_of(1000, 1, 1e-3, 0.05), 1);
}

TEST(Power, of_a_deviation_that_is_no_number_needs_no_number_of_pairs) {
  EXPECT_EQ(pairs_needed(0.001, std::numeric_limits<double>::quiet_NaN(), 0.05, 0.9), std::nullopt);
  EXPECT_TRUE(std::isnan(visible_gap(1, 1, 0.05, 0.9)));
}

TEST(Correlation, is_that_of_the_pairs) {
  const std::array x{1.0, 2.0, 3.0, 4.0};
  EXPECT_NEAR(correlation_of(x, std::array{2.0, 4.0, 6.0, 8.0}), 1, 1e-12);
  EXPECT_NEAR(correlation_of(x, std::array{4.0, 3.0, 2.0, 1.0}), -1, 1e-12);
  EXPECT_NEAR(correlation_of(x, std::array{1.0, 3.0, 2.0, 4.0}), 0.8, 1e-12);
  EXPECT_TRUE(std::isnan(correlation_of(x, std::array{1.0, 1.0, 1.0, 1.0})));
  EXPECT_TRUE(std::isnan(correlation_of(std::array{1.0, 2.0}, std::array{1.0, 2.0})));
}

TEST(StudentT, refuses_what_is_no_probability_and_no_freedom) {
  EXPECT_THROW(student_t_quantile(1, 4), Error);
  EXPECT_THROW(student_t_quantile(std::numeric_limits<double>::quiet_NaN(), 4), Error);
  EXPECT_THROW(student_t_quantile(0.95, 0), Error);
}

}  // namespace
}  // namespace mxcheck
