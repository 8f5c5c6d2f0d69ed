#include "properties/core/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mxcheck {
namespace {

TEST(Limits, extents_go_up_to_the_multiples) {
  const OperationInfo huge{"quantize", "exact", 0, 0, 1024, 1024};
  const Case c = within_limits(parse_case("op=quantize rows=3 cols=2000 stride=2003 experts=0,1,3"), huge);
  EXPECT_EQ(c.rows, 1024);
  EXPECT_EQ(c.cols, 2048);
  EXPECT_EQ(c.stride, 2051);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 1, 1024}));
}

TEST(Limits, limits_clip_and_move_plants_and_experts_inside) {
  const OperationInfo small{"quantize", "exact", 40, 100, 16, 8};
  const Case c = within_limits(parse_case("op=quantize rows=90 cols=200 experts=0,50,90 plant=80,150:1"), small);
  EXPECT_EQ(c.rows, 32);
  EXPECT_EQ(c.cols, 96);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 32, 32}));
  EXPECT_EQ(c.plants, (std::vector<Plant>{{31, 95, 1}}));
}

TEST(Limits, an_extent_goes_up_to_its_multiple_but_never_past_the_limit) {
  EXPECT_EQ(to_multiple(0, 16, 0), 0);
  EXPECT_EQ(to_multiple(1, 16, 0), 16);
  EXPECT_EQ(to_multiple(16, 16, 0), 16);
  EXPECT_EQ(to_multiple(90, 16, 40), 32);
  EXPECT_EQ(to_multiple(3, 64, 40), 0);  // no multiple lies within the limit
  for (const std::int64_t rows : {0, 1, 17, 100}) {
    const OperationInfo limits{"quantize", "exact", 64, 96, 16, 32};
    Case c = parse_case("op=quantize rows=1 cols=1");
    c.rows = rows, c.cols = 3 * rows;
    EXPECT_TRUE(is_within_limits(within_limits(c, limits), limits)) << rows;
  }
}

// Shrinking tries these in order: each is smaller and comes once, and the largest is the extent less one, so that a
// search which goes on from what still fails ends at the threshold itself.
TEST(Limits, smaller_extents_lead_to_any_threshold) {
  EXPECT_TRUE(smaller_extents(0).empty());
  EXPECT_TRUE(smaller_extents(1).empty());
  for (const std::int64_t extent : {2, 3, 31, 32, 33, 1000, 65537, 1 << 24}) {
    const std::vector<std::int64_t> smaller = smaller_extents(extent);
    EXPECT_EQ(smaller.front(), 1);
    EXPECT_EQ(*std::max_element(smaller.begin(), smaller.end()), extent - 1);
    EXPECT_EQ(std::set<std::int64_t>(smaller.begin(), smaller.end()).size(), smaller.size());
    EXPECT_LE(smaller.size(), 40U);
    for (const std::int64_t e : smaller) EXPECT_TRUE(e >= 1 && e < extent) << e;
  }
}

TEST(Limits, every_source_row_is_drawn_before_one_comes_again) {
  const std::vector<std::int32_t> index = draw_index(9, 25, 10);
  ASSERT_EQ(index.size(), 25U);
  for (const int round : {0, 10}) {
    const std::set<std::int32_t> rows(index.begin() + round, index.begin() + round + 10);
    EXPECT_EQ(rows.size(), 10U);
    EXPECT_EQ(*rows.begin(), 0);
    EXPECT_EQ(*rows.rbegin(), 9);
  }
  EXPECT_EQ(index, draw_index(9, 25, 10));
  EXPECT_NE(index, draw_index(10, 25, 10));
  EXPECT_TRUE(draw_index(9, 0, 10).empty());
}

}  // namespace
}  // namespace mxcheck
