#include "numerics/measure/measures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Pair {
  float original;
  float dequantized;
};

ErrorMeasures measured(const std::vector<Pair>& pairs) {
  ErrorMeter meter(Format::e4m3);
  for (const Pair& p : pairs) meter.add(p.original, p.dequantized, 0x38, 1);
  return meter.measures();
}

TEST(Measures, ulp_distance_counts_the_values_between_two_codes) {
  struct Case {
    Format format;
    std::uint32_t a, b;
    std::uint64_t distance;
  };
  const Case cases[] = {
      {Format::e4m3, 0x38, 0x38, 0},
      {Format::e4m3, 0x38, 0x39, 1},
      {Format::e4m3, 0x00, 0x80, 0},
      {Format::e4m3, 0x01, 0x81, 2},
      {Format::e4m3, 0x7E, 0xFE, 252},
      {Format::e4m3, 0x07, 0x08, 1},
      {Format::e5m2, 0x7B, 0x7C, 1},
      {Format::e8m0, 0x00, 0xFE, 254},
      {Format::mxint8, 0xFF, 0x01, 2},
      {Format::mxint8, 0x80, 0x7F, 255},
      {Format::e2m1, 0xF, 0x7, 14},
      {Format::bf16, 0x3F80, 0xBF80, 0x7F00},
      {Format::fp32, 0x80000001, 0x00000001, 2},
      {Format::e5m6, 0x800, 0x001, 1},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ulp_distance(c.format, c.a, c.b), c.distance) << spec(c.format).name << " " << c.a << " " << c.b;
    EXPECT_EQ(ulp_distance(c.format, c.b, c.a), c.distance) << spec(c.format).name << " " << c.a << " " << c.b;
  }
}

TEST(Measures, ordinals_are_in_the_order_of_values) {
  for (const Format format : kAllFormats) {
    if (spec(format).bits > 12) continue;
    for (std::uint32_t a = 0; a < 1U << spec(format).bits; ++a) {
      for (std::uint32_t b = 0; b<1U << spec(format).bits; b += spec(format).bits> 8 ? 31 : 1) {
        const auto place_a = ordinal(format, a);
        const auto place_b = ordinal(format, b);
        if (!place_a || !place_b) continue;
        const double difference = decode(format, a) - decode(format, b);
        const bool infinite_pair = std::isnan(difference);  // Inf - Inf
        ASSERT_EQ(*place_a < *place_b, !infinite_pair && difference < 0) << spec(format).name << " " << a << " " << b;
      }
    }
  }
}

TEST(Measures, any_two_nans_are_equal_and_nan_is_at_no_distance_from_a_number) {
  EXPECT_EQ(ulp_distance(Format::e4m3, 0x7F, 0xFF), 0U);
  EXPECT_EQ(ulp_distance(Format::e5m2, 0x7D, 0x7F), 0U);
  EXPECT_EQ(ulp_distance(Format::e4m3, 0x7F, 0x7E), std::nullopt);
  EXPECT_EQ(ulp_distance(Format::e8m0, 0x00, 0xFF), std::nullopt);
  EXPECT_EQ(ordinal(Format::e4m3, 0xFF), std::nullopt);
}

TEST(Measures, sqnr_is_the_ratio_of_the_sums_of_squares_in_decibels) {
  // Signal 9 + 16 = 25, noise 0.25: a ratio of 100.
  const ErrorMeasures m = measured({{3, 3.5F}, {-4, -4}});
  EXPECT_DOUBLE_EQ(m.sqnr_db, 20);
  EXPECT_EQ(m.compared, 2U);
}

TEST(Measures, sqnr_is_infinite_without_error) {
  EXPECT_EQ(measured({{3, 3}, {0, 0}}).sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(measured({{0, 0}}).sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(measured({{0, 1}}).sqnr_db, -std::numeric_limits<double>::infinity());
}

TEST(Measures, relative_errors_have_a_largest_and_a_middle) {
  const ErrorMeasures odd = measured({{4, 5}, {-2, -1}, {8, 8}});  // 1/4, 1/2, 0
  EXPECT_EQ(odd.max_relative, 0.5);
  EXPECT_EQ(odd.median_relative, 0.25);
  const ErrorMeasures even = measured({{4, 5}, {-2, -1}, {8, 8}, {8, 7}, {0, 0}});  // 1/4, 1/2, 0, 1/8; 0/0 not counted
  EXPECT_EQ(even.median_relative, 0.1875);
  EXPECT_TRUE(std::isinf(measured({{0, 1}}).max_relative));
}

TEST(Measures, an_element_that_became_infinite_is_an_infinite_error) {
  const ErrorMeasures m = measured({{1, 1}, {2, kInf}});
  EXPECT_TRUE(std::isinf(m.max_relative));
  EXPECT_EQ(m.sqnr_db, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(m.compared, 2U);
}

TEST(Measures, nan_or_infinity_out_of_place_fails_every_comparison) {
  const struct {
    Pair pair;
    std::uint64_t introduced, lost, infinity_lost;
  } cases[] = {{{1, kNan}, 1, 0, 0},
               {{kNan, 1}, 0, 1, 0},
               {{kInf, 448}, 0, 0, 1},
               {{kInf, -kInf}, 0, 0, 1},
               {{-kInf, kNan}, 1, 0, 0}};
  for (const auto& c : cases) {
    const ErrorMeasures m = measured({{1, 1}, c.pair});
    EXPECT_EQ(m.nan_introduced, c.introduced);
    EXPECT_EQ(m.nan_lost, c.lost);
    EXPECT_EQ(m.infinity_lost, c.infinity_lost);
    EXPECT_TRUE(std::isnan(m.sqnr_db) && std::isnan(m.max_relative) && std::isnan(m.median_relative));
  }
}

TEST(Measures, nan_and_infinity_in_their_places_are_counted_and_left_out) {
  const ErrorMeasures m = measured({{kNan, kNan}, {kInf, kInf}, {2, 2.5F}});
  EXPECT_EQ(m.nan_in_both, 1U);
  EXPECT_EQ(m.compared, 1U);
  EXPECT_EQ(m.count, 3U);
  EXPECT_EQ(m.max_relative, 0.25);
}

TEST(Measures, of_nothing_are_nan) {
  EXPECT_TRUE(std::isnan(measured({}).sqnr_db));
  EXPECT_EQ(measured({}).flushed_share, 0);
}

TEST(Measures, counts_what_was_flushed_to_zero_and_what_was_saturated) {
  ErrorMeter meter(Format::e4m3);
  meter.add(0, 0, 0x00, 2);              // a zero is not flushed
  meter.add(0x1p-30F, 0, 0x00, 2);       // flushed
  meter.add(-0x1p-30F, -0.0F, 0x80, 2);  // flushed, to minus zero
  meter.add(896, 896, 0x7E, 2);          // exactly the largest: not saturated
  meter.add(-897, -896, 0xFE, 2);        // beyond
  meter.add(kInf, 896, 0x7E, 2);         // beyond
  meter.add(890, 896, 0x7E, 2);          // rounded up to the largest: not saturated
  meter.add(2, 2, 0x38, 2);
  const ErrorMeasures m = meter.measures();
  EXPECT_EQ(m.flushed, 2U);
  EXPECT_EQ(m.saturated, 2U);
  EXPECT_EQ(m.flushed_share, 0.25);
  EXPECT_EQ(m.saturated_share, 0.25);
}

TEST(Measures, an_infinite_code_is_not_a_saturated_one) {
  ErrorMeter meter(Format::e5m2);
  meter.add(1e30F, kInf, 0x7C, 1);
  EXPECT_EQ(meter.measures().saturated, 0U);
}

TEST(Measures, pairwise_sums_keep_what_a_running_sum_loses) {
  PairwiseSum sum;
  constexpr int kTerms = 1 << 20;
  for (int i = 0; i < kTerms; ++i) sum.add(0.1);
  EXPECT_EQ(sum.total(), kTerms * 0.1);  // 2^20 equal terms only ever double: exact. A running sum is off by 8e-7
  PairwiseSum seven;
  for (int i = 1; i <= 7; ++i) seven.add(i);
  EXPECT_EQ(seven.total(), 28);
  EXPECT_EQ(PairwiseSum{}.total(), 0);
}

TEST(Measures, refuses_codes_wider_than_the_format_and_scales_as_elements) {
  EXPECT_THROW(ordinal(Format::e2m1, 16), Error);
  EXPECT_THROW(ulp_distance(Format::e5m6, 0, 0x1000), Error);
  EXPECT_THROW(ErrorMeter(Format::e4m3).add(1, 1, 0x100, 1), Error);
  EXPECT_THROW(ErrorMeter{Format::e8m0}, Error);
}

}  // namespace
}  // namespace mxcheck
