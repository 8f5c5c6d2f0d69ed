#include "properties/core/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace mxcheck {
namespace {

TEST(Rng, a_hundred_thousand_words_of_a_draw_are_spread_evenly) {
  Draw words(5);
  std::array<int, 10> bins{};
  for (int i = 0; i < 100'000; ++i) ++bins[words.below(10)];
  for (int n : bins) {
    EXPECT_NEAR(n, 10'000, 500);  // five times sqrt(100,000 * 0.1 * 0.9) = 95
  }
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t n = words.between(-3, 4);
    ASSERT_GE(n, -3);
    ASSERT_LE(n, 4);
  }
}

TEST(Rng, seeds_of_parts_follow_from_the_name_and_the_root) {
  EXPECT_NE(derived_seed(1, "a"), derived_seed(1, "b"));
  EXPECT_NE(derived_seed(1, "a"), derived_seed(2, "a"));
}

}  // namespace
}  // namespace mxcheck
