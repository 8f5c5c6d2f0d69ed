// The portable bodies of kernels/sm100/tcgen05/numbers.h, which have to have the bits of sm_100a's instructions.
#include "kernels/sm100/tcgen05/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

// NVIDIA's conversion for targets without the instruction, where a toolkit is installed.
#if __has_include(<cuda_fp8.h>)
  #include <cuda_fp8.h>
  #define MXCHECK_HAS_CUDA_FP8 1
#else
  #define MXCHECK_HAS_CUDA_FP8 0
#endif

namespace mxcheck::sm100 {
namespace {

// All signs and exponents with the 7 upper bits of fractions, each with what decides a rounding below them.
template <class Check>
void for_all_upper_halves(Check check) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0xFFFFu}) check(upper << 16 | lower);
  }
}

unsigned byte_of(float x) { return pack_ue8m0(x, 0.0f) & 0xFFu; }

// ceil(log2(|x|)) by comparison with powers of two, which doubles have exactly.
unsigned expected_byte(float x) {
  if (std::isnan(x)) return 255;
  if (std::isinf(x)) return 254;
  unsigned byte = 0;
  while (byte < 254 && std::ldexp(1.0, static_cast<int>(byte) - 127) < std::fabs(static_cast<double>(x))) ++byte;
  return byte;
}

TEST(Numbers, scale_bytes_of_examples) {
  EXPECT_EQ(byte_of(1.0f), 127u);
  EXPECT_EQ(byte_of(1.0000001f), 128u);
  EXPECT_EQ(byte_of(2.0f), 128u);
  EXPECT_EQ(byte_of(3.0f), 129u);
  EXPECT_EQ(byte_of(-3.0f), 129u);
  EXPECT_EQ(byte_of(0.0f), 0u);
  EXPECT_EQ(byte_of(-0.0f), 0u);
  EXPECT_EQ(byte_of(float_of(0x00000001)), 0u);  // 2^-149
  EXPECT_EQ(byte_of(float_of(0x00400000)), 0u);  // 2^-127
  EXPECT_EQ(byte_of(float_of(0x00400001)), 1u);
  EXPECT_EQ(byte_of(float_of(0x00800000)), 1u);    // 2^-126
  EXPECT_EQ(byte_of(float_of(0x7F000000)), 254u);  // 2^127
  EXPECT_EQ(byte_of(float_of(0x7F000001)), 254u);
  EXPECT_EQ(byte_of(std::numeric_limits<float>::max()), 254u);
  EXPECT_EQ(byte_of(std::numeric_limits<float>::infinity()), 254u);
  EXPECT_EQ(byte_of(-std::numeric_limits<float>::infinity()), 254u);
  EXPECT_EQ(byte_of(float_of(0x7F800001)), 255u);
  EXPECT_EQ(byte_of(float_of(0xFFC00000)), 255u);
}

TEST(Numbers, scale_bytes_are_the_least_power_of_two_that_is_not_below) {
  for_all_upper_halves([](std::uint32_t bits) {
    ASSERT_EQ(byte_of(float_of(bits)), expected_byte(float_of(bits))) << std::hex << bits;
  });
}

TEST(Numbers, scale_bytes_are_those_of_cuda_fp8) {
#if MXCHECK_HAS_CUDA_FP8
  for_all_upper_halves([](std::uint32_t bits) {
    ASSERT_EQ(byte_of(float_of(bits)), __nv_cvt_float_to_e8m0(float_of(bits), __NV_SATFINITE, cudaRoundPosInf))
        << std::hex << bits;
  });
#else
  GTEST_SKIP() << "no cuda_fp8.h on the include path";
#endif
}

TEST(Numbers, the_first_scale_byte_is_the_low_one) {
  EXPECT_EQ(pack_ue8m0(1.0f, 4.0f), 129u << 8 | 127u);
  EXPECT_EQ(pack_ue8m0(float_of(0x7FC00000), 0.0f), 0x00FFu);
}

TEST(Numbers, scale_byte_clamps_an_exponent) {
  for (int exponent = -300; exponent <= 300; ++exponent) {
    const int expected = exponent < -127 ? 0 : exponent > 127 ? 254 : exponent + 127;
    ASSERT_EQ(scale_byte(exponent), expected) << exponent;
  }
  EXPECT_EQ(scale_byte(std::numeric_limits<int>::min()), 0);
  EXPECT_EQ(scale_byte(std::numeric_limits<int>::max()), 254);
}

TEST(Numbers, scale_value_is_the_power_of_two_of_its_byte) {
  for (int byte = 0; byte < 255; ++byte) {
    ASSERT_EQ(scale_value(static_cast<std::uint8_t>(byte)), std::ldexp(1.0, byte - 127)) << byte;
    ASSERT_EQ(byte_of(scale_value(static_cast<std::uint8_t>(byte))), static_cast<unsigned>(byte));
  }
  EXPECT_TRUE(std::isnan(scale_value(255)));
}

constexpr std::uint32_t kNan = 0x7FFFFFFF;

TEST(Numbers, pairs_are_computed_part_by_part) {
  const Float2 sum = add2({1.0f, 2.0f}, {10.0f, 20.0f});
  EXPECT_EQ(sum.x, 11.0f);
  EXPECT_EQ(sum.y, 22.0f);
  const Float2 product = mul2({3.0f, 5.0f}, {10.0f, 20.0f});
  EXPECT_EQ(product.x, 30.0f);
  EXPECT_EQ(product.y, 100.0f);
  const Float2 both = fma2({3.0f, 5.0f}, {10.0f, 20.0f}, {1.0f, 2.0f});
  EXPECT_EQ(both.x, 31.0f);
  EXPECT_EQ(both.y, 102.0f);
}

TEST(Numbers, fma2_rounds_once_and_keeps_subnormals) {
  const float x = float_of(0x3F800001);  // (1 + 2^-23)^2 - 1 - 2^-22 = 2^-46
  EXPECT_EQ(fma2({x, x}, {x, x}, {-1.0f - 0x1p-22f, 0.0f}).x, 0x1p-46f);
  EXPECT_EQ(float_bits(mul2({0x1p-100f, 1.0f}, {0x1p-40f, 1.0f}).x), 0x00000200u);  // 2^-140
  EXPECT_EQ(float_bits(add2({0x1p-149f, 0.0f}, {0x1p-149f, 0.0f}).x), 2u);
}

TEST(Numbers, arithmetic_gives_the_canonical_nan) {
  const float nan = float_of(0xFFC12345);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_bits(add2({nan, infinity}, {1.0f, -infinity}).x), kNan);
  EXPECT_EQ(float_bits(add2({nan, infinity}, {1.0f, -infinity}).y), kNan);
  EXPECT_EQ(float_bits(mul2({nan, infinity}, {1.0f, 0.0f}).y), kNan);
  EXPECT_EQ(float_bits(fma2({infinity, 1.0f}, {0.0f, 1.0f}, {1.0f, nan}).x), kNan);
  EXPECT_EQ(float_bits(fma2({infinity, 1.0f}, {0.0f, 1.0f}, {1.0f, nan}).y), kNan);
}

TEST(Numbers, max3_takes_the_largest_wherever_it_is) {
  EXPECT_EQ(max3(1.0f, 2.0f, 3.0f), 3.0f);
  EXPECT_EQ(max3(1.0f, 3.0f, 2.0f), 3.0f);
  EXPECT_EQ(max3(3.0f, 1.0f, 2.0f), 3.0f);
  EXPECT_EQ(max3(-3.0f, -1.0f, -2.0f), -1.0f);
}

TEST(Numbers, max3_prefers_numbers_to_nan_and_plus_zero_to_minus_zero) {
  const float nan = float_of(0xFF812345);
  EXPECT_EQ(max3(nan, -1.0f, nan), -1.0f);
  EXPECT_EQ(max3(-1.0f, nan, nan), -1.0f);
  EXPECT_EQ(max3(nan, nan, -1.0f), -1.0f);
  EXPECT_EQ(float_bits(max3(nan, nan, nan)), kNan);
  EXPECT_EQ(float_bits(max3(-0.0f, 0.0f, -0.0f)), 0u);
  EXPECT_EQ(float_bits(max3(0.0f, -0.0f, -0.0f)), 0u);
  EXPECT_EQ(float_bits(max3(-0.0f, -0.0f, -0.0f)), 0x80000000u);
}

TEST(Numbers, eight_words_go_and_come) {
  alignas(32) const std::uint32_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(32) std::uint32_t to[8] = {};
  st_global(to, ld_global(from));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(to[i], from[i]);
}

}  // namespace
}  // namespace mxcheck::sm100
