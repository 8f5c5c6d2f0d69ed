#include "reference/common/checked_size.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/reference/common/test_matrix.h"

namespace mxcheck {
namespace {

using test::thrown_by;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(CheckedSize, computes_what_fits) {
  EXPECT_EQ(checked_product(kMost, 1, "x"), kMost);
  EXPECT_EQ(checked_product(kMost, 0, "x"), 0);
  EXPECT_EQ(checked_product(3037000499, 3037000499, "x"), 9223372030926249001);
  EXPECT_EQ(checked_sum(kMost - 1, 1, "x"), kMost);
  EXPECT_EQ(checked_round_up(129, 128, "x"), 256);
  EXPECT_EQ(checked_round_up(128, 128, "x"), 128);
  EXPECT_EQ(checked_round_up(0, 128, "x"), 0);
}

TEST(CheckedSize, refuses_what_does_not_and_names_it) {
  const auto product = thrown_by([] { (void)checked_product(3037000500, 3037000500, "tiles"); });
  EXPECT_EQ(product.kind, ErrorKind::usage);
  EXPECT_EQ(product.text, "tiles: 3037000500 x 3037000500 is beyond 2^63 - 1; use smaller dimensions");
  const auto sum = thrown_by([] { (void)checked_sum(kMost, 1, "rows"); });
  EXPECT_EQ(sum.kind, ErrorKind::usage);
  EXPECT_EQ(sum.text, "rows: 9223372036854775807 + 1 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(thrown_by([] { (void)checked_round_up(kMost, 128, "rows"); }).text,
            "rows: 72057594037927936 x 128 is beyond 2^63 - 1; use smaller dimensions");
}

TEST(CeilDiv, rounds_up_and_cannot_overflow) {
  EXPECT_EQ(ceil_div(0, 5), 0);
  EXPECT_EQ(ceil_div(5, 5), 1);
  EXPECT_EQ(ceil_div(6, 5), 2);
  EXPECT_EQ(ceil_div(kMost, 2), kMost / 2 + 1);
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
}

TEST(ResizeOrThrow, fills_or_says_how_much_was_asked_for) {
  std::vector<int> v{7};
  resize_or_throw(v, 3, "x", 5);
  EXPECT_EQ(v, (std::vector<int>{5, 5, 5}));
  resize_or_throw(v, 2, "x");
  EXPECT_EQ(v, (std::vector<int>{0, 0}));
  const auto thrown = thrown_by([&] { resize_or_throw(v, std::int64_t{1} << 62, "codes"); });
  EXPECT_EQ(thrown.kind, ErrorKind::environment);
  EXPECT_EQ(thrown.text, "codes: no memory for 4611686018427387904 values of 4 bytes");
}

}  // namespace
}  // namespace mxcheck
