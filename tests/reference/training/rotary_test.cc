// The table, against cosines and sines that are computed one by one with 100 digits.

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include "numerics/error.h"
#include "reference/training/attention.h"

namespace mxcheck {
namespace {

using Wide = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<120>>;

TEST(RotaryTable, entries_are_exact_numbers_rounded_once) {
  constexpr std::int64_t kLength = 256;
  constexpr std::int64_t kWidth = 32;
  const RotaryTable table = rotary_table(kLength, kWidth);
  ASSERT_EQ(std::ssize(table.cosine), kLength * kWidth / 2);
  for (const std::int64_t p : {0, 1, 2, 100, 255}) {
    for (std::int64_t j = 0; j < kWidth / 2; ++j) {
      const Wide angle = Wide(p) * pow(Wide(10000), Wide(-2 * j) / kWidth);
      const auto at = static_cast<std::size_t>(p * kWidth / 2 + j);
      EXPECT_EQ(table.cosine[at], Wide(cos(angle)).convert_to<float>()) << p << ' ' << j;
      EXPECT_EQ(table.sine[at], Wide(sin(angle)).convert_to<float>()) << p << ' ' << j;
    }
  }
}

TEST(RotaryTable, every_entry_is_within_half_an_ulp_by_double_arithmetic) {
  const RotaryTable table = rotary_table(300, 6);
  for (std::int64_t p = 0; p < 300; ++p) {
    for (std::int64_t j = 0; j < 3; ++j) {
      // An angle below 300 is within 2^-43 as a double, its cosine too; half an ulp of FP32 is 2^-25 at most.
      const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(j) / 6);
      const auto at = static_cast<std::size_t>(p * 3 + j);
      EXPECT_LE(std::abs(double{table.cosine[at]} - std::cos(angle)), 0x1p-25 + 0x1p-42);
      EXPECT_LE(std::abs(double{table.sine[at]} - std::sin(angle)), 0x1p-25 + 0x1p-42);
    }
  }
}

TEST(RotaryTable, odd_widths_and_negative_lengths_are_refused) {
  EXPECT_THROW(rotary_table(4, 3), Error);
  EXPECT_THROW(rotary_table(4, 0), Error);
  EXPECT_THROW(rotary_table(-1, 2), Error);
  EXPECT_TRUE(rotary_table(0, 2).cosine.empty());
}

}  // namespace
}  // namespace mxcheck
