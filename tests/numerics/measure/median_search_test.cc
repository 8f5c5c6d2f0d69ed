#include "numerics/measure/median_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <random>

#include "numerics/error.h"

namespace mxcheck {
namespace {

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
