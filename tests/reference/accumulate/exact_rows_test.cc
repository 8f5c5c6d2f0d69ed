// Rows of exact values: what they hold, and the range that is known of them.

#include "reference/accumulate/exact_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mxcheck {
namespace {

TEST(ExactRows, a_factors_value_is_exact) {
  EXPECT_EQ(value_of(factor(Format::e4m3, 0x7E)), 448);
  EXPECT_EQ(value_of(factor(Format::fp32, 0x80000001)), -0x1p-149);
  EXPECT_EQ(value_of({Factor::Kind::finite, true, 0xFFFFFFFF, -252, 46}), -std::ldexp(4294967295.0, -298));
  EXPECT_EQ(value_of({Factor::Kind::finite, false, 0xFFFFFFFF, 254, 31}), std::ldexp(4294967295.0, 223));
  EXPECT_TRUE(std::signbit(value_of(factor(Format::bf16, 0x8000))));
  EXPECT_EQ(value_of(factor(Format::e5m2, 0xFC)), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(value_of(factor(Format::e4m3, 0x7F))));
}

TEST(ExactRows, rows_lie_side_by_side_in_panels) {
  ExactRows x(18, 3);
  for (std::int64_t row = 0; row < 18; ++row) {
    const auto first = static_cast<double>(10 * row);
    x.set_row(row, std::vector<double>{first, first + 1, first + 2});
  }
  EXPECT_EQ(x.rows(), 18);
  for (std::int64_t row = 0; row < 18; ++row) {
    for (std::int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(x.values_of_row(row)[k * ExactRows::kPanel], static_cast<double>(10 * row + k));
      EXPECT_EQ(x.values(row / 16)[k * 16 + row % 16], static_cast<double>(10 * row + k));
    }
  }
  EXPECT_EQ(x.values(1)[2], 0);  // a lane beyond the rows
}

TEST(ExactRows, blocks_of_k_have_ranges_of_their_own) {
  std::vector<double> values(700, 0);
  values[0] = std::ldexp(-1, -298);
  values[600] = -3;  // 2^0 and below 2^2
  values[698] = 0.375;
  values[699] = std::numeric_limits<double>::infinity();  // not finite: of no range
  ExactRows x(2, 700);
  x.set_row(1, values);
  EXPECT_EQ(x.range(1, 0).quantum, -298);
  EXPECT_EQ(x.range(1, 0).top, -297);
  EXPECT_EQ(x.range(1, 1).quantum, ExactRows::kZeroQuantum);
  EXPECT_EQ(x.range(1, 1).top, ExactRows::kZeroTop);
  EXPECT_EQ(x.range(1, 2).quantum, -3);
  EXPECT_EQ(x.range(1, 2).top, 2);
  EXPECT_EQ(x.row(1).quantum, -298);
  EXPECT_EQ(x.row(1).bits, 2);
  EXPECT_NEAR(x.row(1).norm, std::sqrt(9 + 0.375 * 0.375), 1e-6);
  EXPECT_EQ(x.row(0).norm, 0);
}

TEST(ExactRows, the_ends_of_the_range_neither_overflow_nor_vanish) {
  ExactRows x(2, 2);
  x.set_row(0, std::vector<double>{0x1p255, 0x1p255});
  x.set_row(1, std::vector<double>{0x1p-298, 0});
  EXPECT_NEAR(x.row(0).norm / 0x1p255, std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(x.row(1).norm / 0x1p-298, 1, 1e-6);
}

TEST(ExactRows, no_rows_and_no_k) {
  EXPECT_EQ(ExactRows(0, 5).rows(), 0);
  ExactRows x(1, 0);
  x.set_row(0, {});
  EXPECT_EQ(x.row(0).norm, 0);
}

}  // namespace
}  // namespace mxcheck
