// The order of the Hopper library's routers as integers, and its networks. By the 0-1 principle a network that sorts
// all lists of zeros and ones sorts everything.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/sm90/route/topk_keys.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Sm90RouteOrder, larger_values_come_first_and_nan_last) {
  const std::array values{kInf, 3e38F, 1.0F, 1e-45F, 0.0F, -1e-45F, -1.0F, -3e38F, -kInf, kNaN};
  for (std::size_t i = 1; i < values.size(); ++i) {
    EXPECT_LT(key_of(negated(values[i - 1]), 9), key_of(negated(values[i]), 0)) << values[i - 1] << " " << values[i];
  }
  EXPECT_LT(key_of(negated(kNaN), 4095), kAbsent<Key32>);
}

TEST(Sm90RouteOrder, equal_values_come_by_index) {
  for (const auto& [a, b] : {std::pair{0.0F, -0.0F}, std::pair{-0.0F, 0.0F}, std::pair{kNaN, -kNaN}}) {
    EXPECT_LT(key_of(negated(a), 3), key_of(negated(b), 4));
    EXPECT_LT(key_of(negated(b), 3), key_of(negated(a), 4));
  }
}

TEST(Sm90RouteOrder, a_key_gives_back_its_value_and_index) {
  for (const float v : {kInf, 1.5F, 1e-45F, 0.0F, -1e-45F, -2.0F, -kInf}) {
    EXPECT_EQ(value_of(key_of(negated(v), 4095)), v);
    EXPECT_EQ(index_of(key_of(negated(v), 4095)), 4095U);
    const Key16 half = (folded(word_of(negated(v))) & 0xFFFF0000U) | 77U;
    EXPECT_EQ(value_of(half), float_of(word_of(v) & 0xFFFF0000U));
    EXPECT_EQ(index_of(half), 77U);
  }
  EXPECT_NE(value_of(key_of(negated(kNaN), 0)), value_of(key_of(negated(kNaN), 0)));
}

template <int kCount>
void expect_sorts(std::uint32_t ones) {
  std::array<Key16, kCount> keys{};
  for (int i = 0; i < kCount; ++i) keys[static_cast<std::size_t>(i)] = ones >> i & 1U;
  sort<0, kCount>(keys.data());
  ASSERT_TRUE(std::is_sorted(keys.begin(), keys.end())) << ones;
  ASSERT_EQ(std::count(keys.begin(), keys.end(), 1U), std::popcount(ones));
}

TEST(Sm90RouteOrder, eight_and_sixteen_keys_are_sorted) {
  for (std::uint32_t ones = 0; ones < 1U << 8; ++ones) expect_sorts<8>(ones);
  for (std::uint32_t ones = 0; ones < 1U << 16; ++ones) expect_sorts<16>(ones);
}

// Sorted lists of zeros and ones are told by their number of ones.
template <int kList>
void expect_inserts() {
  for (int ones = 0; ones <= kList; ++ones) {
    for (int more_ones = 0; more_ones <= 8; ++more_ones) {
      std::array<Key32, kList> list{};
      std::array<Key32, 8> more{};
      std::fill(list.end() - ones, list.end(), 1);
      std::fill(more.end() - more_ones, more.end(), 1);
      insert<kList, 8>(list.data(), more.data());
      ASSERT_TRUE(std::is_sorted(list.begin(), list.end())) << ones << " " << more_ones;
      ASSERT_EQ(std::count(list.begin(), list.end(), 0U), std::min(kList, kList - ones + 8 - more_ones));
    }
  }
}

TEST(Sm90RouteOrder, the_smallest_of_a_list_and_eight_keys_stay) {
  expect_inserts<8>(), expect_inserts<16>(), expect_inserts<32>();
}

}  // namespace
}  // namespace mxcheck_kernels::sm90
