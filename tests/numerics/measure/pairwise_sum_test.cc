#include "numerics/measure/pairwise_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numerics/error.h"

namespace mxcheck {
namespace {

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

}  // namespace
}  // namespace mxcheck
