#include "numerics/measure/measures.h"
#include "numerics/format/codec.h"
#include "numerics/measure/median_search.h"
#include "tests/numerics/measure/measured.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

struct Pair {
  float original;
  float dequantized;
};

ErrorMeasures measured(const std::vector<Pair>& pairs) {
  std::vector<float> originals, dequantized;
  for (const Pair& p : pairs) {
    originals.push_back(p.original);
    dequantized.push_back(p.dequantized);
  }
  return test::measured(originals, dequantized);
}

TEST(Measures, ulp_distance_counts_the_values_between_two_codes) {
  using Case = std::tuple<Format, std::uint32_t, std::uint32_t, std::uint64_t>;
  const Case cases[] = {
      {Format::e4m3, 0x38, 0x38, 0},      {Format::e4m3, 0x38, 0x39, 1},   {Format::e4m3, 0x00, 0x80, 0},
      {Format::e4m3, 0x01, 0x81, 2},      {Format::e4m3, 0x7E, 0xFE, 252}, {Format::e4m3, 0x07, 0x08, 1},
      {Format::e5m2, 0x7B, 0x7C, 1},      {Format::e8m0, 0x00, 0xFE, 254}, {Format::mxint8, 0xFF, 0x01, 2},
      {Format::mxint8, 0x80, 0x7F, 255},  {Format::e2m1, 0xF, 0x7, 14},    {Format::bf16, 0x3F80, 0xBF80, 0x7F00},
      {Format::fp32, 0x80000001, 0x1, 2}, {Format::e5m6, 0x800, 0x001, 1}};
  for (const auto& [format, a, b, distance] : cases) {
    EXPECT_EQ(ulp_distance(format, a, b), distance) << spec(format).name << " " << a << " " << b;
    EXPECT_EQ(ulp_distance(format, b, a), distance) << spec(format).name << " " << a << " " << b;
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
  const std::tuple<Pair, std::uint64_t, std::uint64_t, std::uint64_t> cases[] = {{{1, kNaN}, 1, 0, 0},
                                                                                 {{kNaN, 1}, 0, 1, 0},
                                                                                 {{kInf, 448}, 0, 0, 1},
                                                                                 {{kInf, -kInf}, 0, 0, 1},
                                                                                 {{-kInf, kNaN}, 1, 0, 0}};
  for (const auto& [pair, introduced, lost, infinity_lost] : cases) {
    const ErrorMeasures m = measured({{1, 1}, pair});
    EXPECT_EQ(m.nan_introduced, introduced);
    EXPECT_EQ(m.nan_lost, lost);
    EXPECT_EQ(m.infinity_lost, infinity_lost);
    EXPECT_TRUE(std::isnan(m.sqnr_db) && std::isnan(m.max_relative) && std::isnan(m.median_relative));
  }
}

TEST(Measures, nan_and_infinity_in_their_places_are_counted_and_left_out) {
  const ErrorMeasures m = measured({{kNaN, kNaN}, {kInf, kInf}, {2, 2.5F}});
  EXPECT_EQ(m.nan_in_both, 1U);
  EXPECT_EQ(m.compared, 1U);
  EXPECT_EQ(m.count, 3U);
  EXPECT_EQ(m.max_relative, 0.25);
}

TEST(Measures, of_nothing_are_nan) {
  EXPECT_TRUE(std::isnan(measured({}).sqnr_db));
  EXPECT_EQ(measured({}).flushed_share, 0);
}

// The share that a thread measures, and where a part ends, must not show in the measures.
TEST(Measures, do_not_depend_on_how_the_tensor_is_cut) {
  std::vector<float> originals, dequantized;
  for (std::uint32_t i = 0; i < 9000; ++i) {
    originals.push_back(std::bit_cast<float>(0x3F000000 + i * 2654435761U % 0x1000000));
    dequantized.push_back(originals.back() * (1 + 0x1p-9F * static_cast<float>(i % 97)));
  }
  originals[5000] = dequantized[5000] = kNaN;  // has its place in the sums
  const ErrorMeasures whole = test::measured(originals, dequantized);
  PairwiseSum signal, noise;
  for (std::size_t i = 0; i < originals.size(); ++i) {
    const double x = i == 5000 ? 0 : originals[i];
    const double error = i == 5000 ? 0 : dequantized[i] - x;
    signal.add(x * x);
    noise.add(error * error);
  }
  EXPECT_EQ(whole.sqnr_db, 10 * std::log10(signal.total() / noise.total()));
  EXPECT_EQ(whole.compared, 8999U);
  for (const std::size_t size : {1U, 7U, 1000U, 1024U, 1025U, 4096U, 8999U}) {
    const ErrorMeasures cut = test::measured(originals, dequantized, size);
    EXPECT_EQ(cut.sqnr_db, whole.sqnr_db) << size;
    EXPECT_EQ(cut.median_relative, whole.median_relative) << size;
    EXPECT_EQ(cut.max_relative, whole.max_relative) << size;
    EXPECT_EQ(cut.nan_in_both, 1U);
  }
}

TEST(Measures, refuse_parts_out_of_order) {
  ErrorMeter meter;
  ErrorMeter::Part second = meter.part(1024);
  const std::vector<float> ones(2048, 1);
  second.add(ones, ones);
  EXPECT_THROW(meter.add(second), Error);
  EXPECT_THROW(meter.part(0).add(ones, std::span(ones).first(3)), Error);
}

TEST(Measures, refuse_codes_wider_than_the_format) {
  EXPECT_THROW(ordinal(Format::e2m1, 16), Error);
  EXPECT_THROW(ulp_distance(Format::e5m6, 0, 0x1000), Error);
}

TEST(PairwiseSum, keeps_what_a_running_sum_loses) {
  PairwiseSum sum;
  constexpr int kTerms = 1 << 20;
  for (int i = 0; i < kTerms; ++i) sum.add(0.1);
  EXPECT_EQ(sum.total(), kTerms * 0.1);  // 2^20 equal terms only ever double: exact. A running sum is off by 8e-7
  PairwiseSum seven;
  for (int i = 1; i <= 7; ++i) seven.add(i);
  EXPECT_EQ(seven.total(), 28);
  EXPECT_EQ(PairwiseSum{}.total(), 0);
}

TEST(PairwiseSum, of_parts_has_the_bits_of_one_value_after_the_other) {
  std::vector<double> values(10000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i)) * std::exp2(i % 60);
  PairwiseSum one_by_one;
  for (const double v : values) one_by_one.add(v);
  for (const std::size_t size : {1U, 3U, 1000U, 1023U, 1024U, 1025U, 2048U, 3000U, 10000U}) {
    PairwiseSum sum;
    for (std::size_t at = 0; at < values.size(); at += size) {
      const std::span<const double> of_part = std::span(values).subspan(at, std::min(size, values.size() - at));
      PairwisePart part(at);
      part.add(of_part.first(of_part.size() / 3));  // in pieces too
      part.add(of_part.subspan(of_part.size() / 3));
      part.append_to(sum);
    }
    EXPECT_EQ(sum.total(), one_by_one.total()) << size;
  }
}

TEST(PairwiseSum, refuses_a_tree_where_values_before_it_are_missing) {
  PairwiseSum sum;
  sum.add(1);
  EXPECT_THROW(sum.add_tree(1, 2), Error);
  sum.add(2);
  sum.add_tree(1, 7);
  EXPECT_EQ(sum.total(), 10);
}

constexpr double kFp64Inf = std::numeric_limits<double>::infinity();

struct Found {
  double median;
  int passes;
};

Found search(std::span<const double> values, double expected = std::numeric_limits<double>::quiet_NaN()) {
  MedianSearch search;
  search.expect(expected);
  for (int passes = 1;; ++passes) {
    for (const auto half : {values.first(values.size() / 2), values.subspan(values.size() / 2)}) {
      MedianSearch::Part part = search.part();
      part.add(half);
      search.add(part);
    }
    if (search.finish_pass()) return {search.median(), passes};
  }
}

// By sorting, NaN left out.
double sorted_median(std::span<const double> values) {
  std::vector<double> v;
  std::copy_if(values.begin(), values.end(), std::back_inserter(v), [](double x) { return x == x; });
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double above = v[v.size() / 2];
  const double below = v[(v.size() - 1) / 2];
  return above == kFp64Inf ? kFp64Inf : below + (above - below) / 2;
}

TEST(MedianSearch, finds_the_middle_or_the_mean_of_the_middle_two) {
  EXPECT_EQ(search({}).median, 0);
  EXPECT_EQ(search(std::vector<double>{5}).median, 5);
  EXPECT_EQ(search(std::vector<double>{8, 0.5}).median, 4.25);
  EXPECT_EQ(search(std::vector<double>{3, kFp64Inf}).median, kFp64Inf);
  EXPECT_EQ(search(std::vector<double>{kFp64Inf, 2, 3}).median, 3);
  EXPECT_EQ(search(std::vector<double>{0, std::numeric_limits<double>::quiet_NaN(), -std::nan(""), 6}).median, 3);
}

TEST(MedianSearch, agrees_with_sorting_whatever_the_distribution) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {1U, 2U, 3U, 1000U, 60001U, 60002U}) {
    std::vector<double> any(count), close(count), few(count), two(count);
    for (std::size_t i = 0; i < count; ++i) {
      do {
        any[i] = std::bit_cast<double>(random() >> 1);
      } while (any[i] != any[i]);
      close[i] =
          1 + static_cast<double>(random() % (1 << 20)) * 0x1p-52;  // more different ones than are counted singly
      few[i] = static_cast<double>(random() % 7);
      two[i] = random() % 2 == 0 ? 1e-300 : 1e300;  // the middle two may lie far apart
    }
    for (const auto& values : {any, close, few, two}) {
      const double want = sorted_median(values);
      EXPECT_EQ(search(values).median, want) << count;
      for (const double expected : {want, 0.0, 1.0, kFp64Inf})
        EXPECT_EQ(search(values, expected).median, want) << count;
    }
  }
}

TEST(MedianSearch, takes_two_passes_for_few_different_values_and_one_when_it_knew_where_they_are) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(0.5 + i % 10 * 0x1p-20);
  EXPECT_EQ(search(values).passes, 2);
  EXPECT_EQ(search(values, 0.5).passes, 1);
  EXPECT_EQ(search(values, 0.25).passes, 2);
  std::vector<double> close(100000);
  for (std::size_t i = 0; i < close.size(); ++i) close[i] = 1 + static_cast<double>(i) * 0x1p-52;
  EXPECT_EQ(search(close).passes, 4) << "17 bits that differ at the end";
  EXPECT_EQ(search(close, 1).passes, 3);
}

TEST(MedianSearch, refuses_a_pass_over_other_values) {
  MedianSearch search;
  MedianSearch::Part part = search.part();
  part.add(std::vector<double>{1, 2, 3});
  search.add(part);
  ASSERT_FALSE(search.finish_pass());
  MedianSearch::Part other = search.part();
  other.add(std::vector<double>{1, 3});
  search.add(other);
  EXPECT_THROW(search.finish_pass(), Error);
}

}  // namespace
}  // namespace mxcheck
