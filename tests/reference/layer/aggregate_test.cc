// The rows of a token added up: order, roundings, what is left out, what is refused.

#include "reference/layer/aggregate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

// 1, -1 and 2^-9 in BF16, one column each.
const Words kRows{0x3F80, 0xBF80, 0x3B00};

TEST(Aggregate, adds_in_the_order_of_the_slots_and_leaves_dropped_ones_out) {
  const std::vector<std::int64_t> offsets{0, 0, 1, 4, 6};
  const std::vector<std::int32_t> rows{1, 2, -1, 0, 0, 0};
  EXPECT_EQ(aggregate({kRows, 3, 1, {}}, {offsets, rows}), (Words{0, 0xBF80, 0x3F80, 0x4000}));
  const std::vector<float> weights{0x1p24F, 0x1p24F, 0x1p9F};  // 2^24 + 1 is no FP32 number: the order shows
  const std::vector<std::int64_t> three{0, 3, 6};
  const std::vector<std::int32_t> orders{2, 0, 1, 0, 1, 2};
  EXPECT_EQ(aggregate({kRows, 3, 1, weights}, {three, orders}), (Words{0, 0x3F80}));
}

TEST(Aggregate, fuses_the_weight_and_rounds_once_at_the_end) {
  const Words y{0x3F81};                              // 1 + 2^-7
  const std::vector<float> weights{1.0F + 0x1p-23F};  // the product needs 31 bits
  const std::vector<std::int64_t> offsets{0, 2};
  const std::vector<std::int32_t> rows{0, 0};
  const float once = std::fma(weights[0], 1.0F + 0x1p-7F, 0.0F);
  const float twice = std::fma(weights[0], 1.0F + 0x1p-7F, once);
  EXPECT_EQ(twice, 2.015625F + 0x1p-22F);
  EXPECT_EQ(aggregate({y, 1, 1, weights}, {offsets, rows}), (Words{0x4001}));
}

TEST(Aggregate, makes_any_nan_the_one_nan) {
  const Words y{0x7F80, 0xFF80};
  const std::vector<std::int64_t> offsets{0, 2};
  const std::vector<std::int32_t> rows{0, 1};
  EXPECT_EQ(aggregate({y, 2, 1, {}}, {offsets, rows}), (Words{0x7FFF}));
}

TEST(Aggregate, refuses_slots_that_are_none) {
  const auto refused = [](const char* message, std::vector<std::int64_t> offsets, std::vector<std::int32_t> rows) {
    test::expect_error(ErrorKind::input, message, [&] { (void)aggregate({kRows, 3, 1, {}}, {offsets, rows}); });
  };
  refused("token_offsets[0] is 1", {1, 1}, {0});
  refused("token_offsets[1] is -1", {0, -1, 1}, {0});
  refused("token_offsets end at 2, and there are 1 slots", {0, 2}, {0});
  refused("slot 1 is of row 3", {0, 2}, {0, 3});
  refused("slot 0 is of row -2", {0, 1}, {-2});
  const std::vector<std::int64_t> offsets{0, 0};
  const std::vector<float> weights{1};
  test::expect_error(ErrorKind::usage, "1 weights", [&] { (void)aggregate({kRows, 3, 1, weights}, {offsets, {}}); });
  test::expect_error(ErrorKind::usage, "3 elements", [&] { (void)aggregate({kRows, 3, 2, {}}, {offsets, {}}); });
  test::expect_error(ErrorKind::usage, "without token_offsets", [&] { (void)aggregate({kRows, 3, 1, {}}, {}); });
}

}  // namespace
}  // namespace mxcheck
