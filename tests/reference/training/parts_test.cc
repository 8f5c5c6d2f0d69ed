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

// Whether the middle (2 M + 1) 2^(e - 1) above the number M 2^e is below 1 / sqrt(n): 50 + 24 bits are exact.
bool middle_is_below(float x, std::int64_t n) {
  __extension__ using Wide = unsigned __int128;
  int exponent = 0;
  const Wide mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(x, &exponent), 24));
  const Wide odd = 2 * mantissa + 1;
  return odd * odd * static_cast<Wide>(n) < Wide{1} << (2 - 2 * (exponent - 24));
}

TEST(OneOverRoot, is_the_nearest_fp32_number_for_every_size_that_a_configuration_can_have) {
  for (std::int64_t n = 1; n <= 1 << 24; ++n) {
    const float r = one_over_root(n);
    ASSERT_FALSE(middle_is_below(r, n)) << n;
    ASSERT_TRUE(middle_is_below(std::nextafter(r, 0.0F), n)) << n;
  }
}

}  // namespace
}  // namespace mxcheck
