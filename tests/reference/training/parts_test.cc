// Rounding to BF16, over every upper half of an FP32 number with lower halves around the middle.

#include "reference/training/parts.h"

#include <gtest/gtest.h>

#include "tests/reference/training/plain.h"

namespace mxcheck {
namespace {

TEST(Bf16Rounding, is_to_the_nearest_number_ties_to_even) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto value = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(to_bf16(value), plain::bf16(value)) << std::hex << (high << 16 | low);
    }
  }
}

TEST(Bf16Rounding, threads_change_nothing) {
  const std::vector<float> v = plain::values(100000, 1, 60);
  EXPECT_EQ(rounded_to_bf16(v, 1), rounded_to_bf16(v, 3));
}

TEST(OneOverRoot, is_the_nearest_fp32_number) {
  for (std::int64_t n = 1; n <= 4096; ++n) {
    // Nearest: r^2 n is nearer to 1 than that of both neighbours' middles. 24-bit squares are exact in long double.
    const float r = one_over_root(n);
    const auto square = [&](float other) {
      const long double middle = (static_cast<long double>(r) + static_cast<long double>(other)) / 2;
      return middle * middle * static_cast<long double>(n);
    };
    EXPECT_LT(square(std::nextafter(r, 0.0F)), 1) << n;
    EXPECT_GT(square(std::nextafter(r, 2.0F)), 1) << n;
  }
}

}  // namespace
}  // namespace mxcheck
