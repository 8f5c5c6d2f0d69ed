#include "properties/core/domain/domain.h"

#include <gtest/gtest.h>

namespace mxcheck {
namespace {

constexpr std::int64_t kStarts[] = {0, 1, 8, 64};

TEST(Domain, extents_are_cut_at_multiples_and_limits) {
  const auto labels = [](const std::vector<Bin>& bins) {
    std::string text;
    for (const Bin& bin : bins) text += bin.label + " ";
    return text;
  };
  EXPECT_EQ(labels(extent_bins(kStarts, 100)), "0 1-7 8-63 64-100 ");
  EXPECT_EQ(labels(extent_bins(kStarts, 100, 16)), "0 16-48 64-96 ");
  EXPECT_EQ(labels(extent_bins(kStarts, 100, 1, 10)), "0 1-7 8-10 ");
  EXPECT_EQ(labels(extent_bins(kStarts, 100, 128)), "0 ");
}

TEST(Domain, drawn_extents_are_multiples_in_range_and_reach_both_ends) {
  Draw draw(1);
  bool low = false, high = false, beside = false;
  for (int i = 0; i < 1000; ++i) {
    const auto n = draw_extent(10, 500, 1, 32, draw);
    ASSERT_TRUE(n && *n >= 10 && *n <= 500);
    low = low || *n == 10, high = high || *n == 500, beside = beside || *n % 32 == 1;
    EXPECT_EQ(*draw_extent(10, 500, 48, 32, draw) % 48, 0);
    EXPECT_FALSE(draw_extent(10, 15, 16, 1, draw));
  }
  EXPECT_TRUE(low && high && beside);
}

TEST(Domain, two_extents_keep_the_bounds_of_their_product) {
  Draw draw(2);
  for (int i = 0; i < 2000; ++i) {
    const auto pair = draw_extents({{1, 131072, {}}}, {{1, 20480, {}}}, {50'000, 100'000, {}}, i % 10, draw);
    if (!pair) continue;
    EXPECT_GE(pair->rows * pair->cols, 50'000);
    EXPECT_LE(pair->rows * pair->cols, 100'000);
  }
  EXPECT_FALSE(draw_extents({{1000, 2000, {}}}, {{1000, 2000, {}}}, {0, 100, {}}, 0, draw));
}

}  // namespace
}  // namespace mxcheck
