// The workspace of a layer's steps: parts that live at a time never share a byte, and gaps are used again.

#include "kernels/sm90/moe/moe_builder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels::sm90 {
namespace {

TEST(Arena, the_memory_of_what_was_dropped_is_handed_out_again) {
  Arena arena(nullptr);
  const Part first = arena.take(3, 100);
  const Part second = arena.take(1, 1);
  EXPECT_EQ(first.at, 0U);
  EXPECT_EQ(second.at, 512U);
  arena.drop(first);
  EXPECT_EQ(arena.take(1, 512).at, 0U);
  EXPECT_EQ(arena.take(1, 256).at, 768U);
  EXPECT_EQ(arena.bytes(), 1024U);
}

TEST(Arena, a_gap_that_is_too_small_stays_one) {
  Arena arena(nullptr);
  const Part first = arena.take(1, 256);
  const Part second = arena.take(1, 256);
  arena.drop(first);
  EXPECT_EQ(arena.take(1, 512).at, 512U);
  EXPECT_EQ(arena.take(1, 10).at, 0U);
  arena.drop(second);
  EXPECT_EQ(arena.bytes(), 1024U);
}

TEST(Arena, parts_that_live_at_a_time_are_disjoint) {
  std::mt19937 random(7);
  Arena arena(nullptr);
  std::vector<Part> live;
  for (int i = 0; i < 2000; ++i) {
    if (!live.empty() && random() % 2 == 0) {
      const auto at = static_cast<std::ptrdiff_t>(random() % live.size());
      arena.drop(live[static_cast<std::size_t>(at)]);
      live.erase(live.begin() + at);
      continue;
    }
    const Part part = arena.take(1 + static_cast<std::int64_t>(random() % 40), 100);
    EXPECT_EQ(part.at % 256, 0U);
    EXPECT_LE(part.at + part.bytes, arena.bytes());
    for (const Part& other : live) {
      EXPECT_TRUE(part.at + part.bytes <= other.at || other.at + other.bytes <= part.at);
    }
    live.push_back(part);
  }
}

TEST(Arena, no_bytes_need_no_memory) {
  unsigned char memory[256];
  Arena arena(memory);
  const Part none = arena.take(0, 1000);
  EXPECT_EQ(arena.bytes(), 0U);
  EXPECT_EQ(arena.at<void>(none), nullptr);
  arena.drop(none);
  EXPECT_EQ(arena.at<void>(arena.take(1, 1)), static_cast<void*>(memory));
}

TEST(Arena, sizes_beyond_an_address_are_refused) {
  Arena arena(nullptr);
  EXPECT_THROW(arena.take(INT64_MAX, 2), Refusal);
  EXPECT_THROW(arena.take(INT64_MAX, 1), Refusal);
}

}  // namespace
}  // namespace mxcheck_kernels::sm90
