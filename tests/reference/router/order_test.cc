// Values as integers in their order, the first few of them, and packed values.

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "reference/router/parts.h"
#include "tests/reference/router/oracle.h"

namespace mxcheck {
namespace {

using namespace router_parts;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(OrderKey, descends_with_the_value_and_then_with_the_index) {
  const std::vector<float> ascending{kNaN, -kInf, -3e38F, -1, -0x1p-149F, 0, 0x1p-149F, 1, 3e38F, kInf};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(order_key(ascending[i], 0), order_key(ascending[i + 1], 1000)) << ascending[i + 1];
    EXPECT_LT(order_key(ascending[i], 7), order_key(ascending[i], 6)) << ascending[i];
  }
  EXPECT_EQ(order_key(-0.0F, 3), order_key(0.0F, 3));
  EXPECT_EQ(order_key(-kNaN, 3), order_key(kNaN, 3));
  EXPECT_NE(order_key(kNaN, std::numeric_limits<std::int32_t>::max()), 0U);
  for (const std::int64_t index : {0, 1, 255, 1 << 23}) EXPECT_EQ(index_of(order_key(-2.5F, index)), index);
}

// 32 and fewer are inserted one by one, more are selected and sorted: either side of the border.
TEST(FirstInOrder, are_the_largest_keys_descending) {
  std::mt19937_64 engine(1);
  std::vector<std::uint64_t> scratch;
  for (const std::size_t size : {1U, 2U, 31U, 32U, 33U, 100U}) {
    std::vector<std::uint64_t> keys(size);
    for (std::uint64_t& key : keys) key = engine();
    std::vector<std::uint64_t> sorted = keys;
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t count = 0; count <= size; ++count) {
      std::vector<std::uint64_t> first(count);
      first_in_order(keys, first, scratch);
      EXPECT_EQ(first, std::vector<std::uint64_t>(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count)))
          << count << " of " << size;
    }
  }
}

TEST(Packed, replaces_the_low_bits_so_that_the_first_of_equals_is_largest) {
  EXPECT_EQ(packed_bits(1), 0);
  EXPECT_EQ(packed_bits(8), 3);
  EXPECT_EQ(packed_bits(9), 4);
  const float x = std::bit_cast<float>(0x3F80000FU);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(cleared(x, 3)), 0x3F800008U);
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(packed(x, i, 3), test::packed_of(x, static_cast<std::size_t>(i), 8));
    EXPECT_EQ(packed(-x, i, 3), test::packed_of(-x, static_cast<std::size_t>(i), 8));
    EXPECT_EQ(cleared(packed(x, i, 3), 3), cleared(x, 3));
    if (i != 0) {
      EXPECT_LT(packed(x, i, 3), packed(x, i - 1, 3));
      EXPECT_LT(packed(-x, i, 3), packed(-x, i - 1, 3));
    }
  }
}

}  // namespace
}  // namespace mxcheck
