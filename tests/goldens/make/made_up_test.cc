#include "goldens/make/made_up.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/bytes.h"

namespace mxcheck {
namespace {

TEST(MadeUp, bits_come_over_and_over) {
  InputSpec input;
  input.bits = {0x3F80, 0x7FC0, 1}, input.rows = 2, input.cols = 4;
  EXPECT_EQ(values_in<std::uint16_t>(repeated_bits(input).data),
            (std::vector<std::uint16_t>{0x3F80, 0x7FC0, 1, 0x3F80, 0x7FC0, 1, 0x3F80, 0x7FC0}));
  input.dtype = Format::fp32;
  EXPECT_EQ(repeated_bits(input).data.size(), 32U);
}

TEST(MadeUp, numbers_are_about_normal_and_of_the_spread_asked_for) {
  InputSpec input;
  input.normal = 5, input.rows = 100, input.cols = 400, input.exponent = -3, input.dtype = Format::fp32;
  const auto x = values_in<float>(normal_numbers(input).data);
  double sum = 0, squares = 0, fourths = 0;
  for (const float v : x) sum += v, squares += double{v} * v, fourths += std::pow(double{v}, 4);
  const auto count = static_cast<double>(x.size());
  // Of 40,000 numbers of spread s: standard deviations of the mean s / 200, of the spread s / sqrt(80,000) = s / 283,
  // of the kurtosis sqrt(24 / 40,000) = 0.024; the bounds are six to nine of them.
  EXPECT_NEAR(sum / count, 0, 0.125 * 0.03);
  EXPECT_NEAR(std::sqrt(squares / count), 0.125, 0.125 * 0.03);
  EXPECT_NEAR(fourths * count / (squares * squares), 3 - 0.1, 0.15);  // twelve summands: 3 - 6 / 60
  InputSpec other = input;
  other.normal = 6;
  EXPECT_NE(normal_numbers(other).data, normal_numbers(input).data);
}

}  // namespace
}  // namespace mxcheck
