#include <algorithm>

#include <gtest/gtest.h>

#include "properties/core/domain/domain.h"

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
    Case c;
    if (!draw_extents(c, {{1, 131072, {}}}, {{1, 20480, {}}}, {50'000, 100'000, {}}, i % 10, draw)) continue;
    EXPECT_GE(c.rows * c.cols, 50'000);
    EXPECT_LE(c.rows * c.cols, 100'000);
  }
  Case none;
  EXPECT_FALSE(draw_extents(none, {{1000, 2000, {}}}, {{1000, 2000, {}}}, {0, 100, {}}, 0, draw));
}

// Whatever is drawn is of the kind that was asked for; what cannot be is refused.
TEST(Groups, what_is_drawn_is_of_its_kind) {
  Draw draw(1);
  int drawn = 0;
  for (int kind = 0; kind < kGroupKinds; ++kind) {
    for (const std::int64_t count : {1, 2, 3, 5, 8, 9, 64, 257, 512}) {
      for (const std::int64_t end : {0, 1, 2, 7, 64, 96, 513, 4096, 65536}) {
        const auto offsets = draw_groups(static_cast<Groups>(kind), count, end, 32, draw);
        if (!offsets) continue;
        ++drawn;
        ASSERT_EQ(static_cast<std::int64_t>(offsets->size()), count + 1);
        EXPECT_EQ(offsets->front(), 0);
        EXPECT_EQ(offsets->back(), end);
        EXPECT_TRUE(std::is_sorted(offsets->begin(), offsets->end()));
        if (count < 3 || end < 3) continue;  // few groups, or rows, are of several kinds
        const auto found = kind_of_groups(*offsets, 32);
        const bool by_chance =
            kind == static_cast<int>(Groups::any) && (found == Groups::whole_units || found == Groups::one_row_each);
        EXPECT_TRUE(static_cast<int>(found) == kind || by_chance) << kind << " " << count << " " << end;
      }
    }
  }
  EXPECT_GT(drawn, 250);
  EXPECT_FALSE(draw_groups(Groups::none_has_rows, 3, 1, 32, draw));
  EXPECT_FALSE(draw_groups(Groups::one_row_each, 3, 4, 32, draw));
  EXPECT_FALSE(draw_groups(Groups::whole_units, 3, 64, 32, draw));
}

TEST(Groups, kinds_are_told_apart) {
  const auto kind = [](const std::vector<std::int64_t>& offsets) { return kind_of_groups(offsets, 32); };
  EXPECT_EQ(kind({0, 0, 0}), Groups::none_has_rows);
  EXPECT_EQ(kind({0, 7}), Groups::one_has_all);
  EXPECT_EQ(kind({0, 0, 7, 7}), Groups::one_has_all);
  EXPECT_EQ(kind({0, 1, 1, 2}), Groups::one_row_each);
  EXPECT_EQ(kind({0, 3, 3, 3, 9}), Groups::empty_in_a_row);
  EXPECT_EQ(kind({0, 0, 3, 9}), Groups::first_empty);
  EXPECT_EQ(kind({0, 3, 9, 9}), Groups::last_empty);
  EXPECT_EQ(kind({0, 32, 96}), Groups::whole_units);
  EXPECT_EQ(kind({0, 32, 95}), Groups::any);
}

}  // namespace
}  // namespace mxcheck
