#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "properties/core/input.h"
#include "properties/core/rng.h"

namespace mxcheck {
namespace {

TEST(Input, elements_are_where_they_belong_and_gaps_hold_nan) {
  for (const Format dtype : {Format::bf16, Format::fp16, Format::fp32}) {
    const Input x = make_input(dtype, 3, 4, 6,
                               [](std::int64_t i, std::int64_t j) { return static_cast<std::uint32_t>(i * 16 + j); });
    EXPECT_EQ(x.bytes.size(), 18 * value_bytes(dtype));
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) EXPECT_EQ(x.bits(i, j), static_cast<std::uint32_t>(i * 16 + j));
      for (std::int64_t j = 4; j < 6; ++j) EXPECT_TRUE(std::isnan(decode(dtype, x.bits(i, j))));
    }
    EXPECT_EQ(x.plant(2, 3), (Plant{2, 3, 35}));
    EXPECT_EQ(x.view().at(2, 3), decode(dtype, 35));
  }
}

TEST(Input, nearest_bits_are_those_of_the_codec_for_any_format) {
  for (const Format dtype : {Format::bf16, Format::fp16, Format::fp32}) {
    const auto expect_codec = [dtype](double value) {
      for (const double x : {value, -value}) {
        ASSERT_EQ(nearest_bits(dtype, x), encode(dtype, x, Rounding::nearest_even, Overflow::saturate))
            << spec(dtype).name << " " << std::hexfloat << x;
      }
    };
    for (const double x : {0.0, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023, HUGE_VAL, std::nan("")}) expect_codec(x);
    // Each binade from below the smallest subnormal to above the largest number: ends, ties, and what is beside them.
    for (int exponent = -160; exponent <= 130; ++exponent) {
      for (std::uint64_t n = 0; n < 256; ++n) {
        const std::uint64_t word = random_word(n, static_cast<std::uint64_t>(exponent + 1000));
        const std::uint64_t kept = n % 4 == 0 ? ~std::uint64_t{0} << (word % 53) : ~std::uint64_t{0};
        const double x = std::ldexp(1 + static_cast<double>((word >> 12) & kept) * 0x1p-52, exponent);
        for (const double near : {x, std::nextafter(x, 0.0), std::nextafter(x, HUGE_VAL)}) expect_codec(near);
      }
    }
  }
}

TEST(Input, the_last_of_several_plants_in_one_place_counts) {
  const Case c = parse_case("op=quantize x=bf16 rows=2 cols=3 stride=5 plant=1,2:1 plant=0,0:7 plant=1,2:9");
  const Input x = expand_input(c, [](std::int64_t, std::int64_t) { return 0x3F80U; });
  EXPECT_EQ(x.stride, 5);
  EXPECT_EQ(x.bits(1, 2), 9U);
  EXPECT_EQ(x.bits(0, 0), 7U);
  EXPECT_EQ(x.bits(0, 1), 0x3F80U);
}

TEST(Input, a_strided_tensor_ends_with_its_last_element) {
  const std::vector<std::byte> bytes(2 * 3 * 7);
  const CallTensor strided = values_tensor(Format::bf16, 3, 5, 7, bytes);
  EXPECT_EQ(strided.row_stride, 7);
  EXPECT_EQ(strided.bytes, 2U * (2 * 7 + 5));
  const CallTensor dense = values_tensor(Format::bf16, 3, 7, 7, bytes);
  EXPECT_EQ(dense.row_stride, 0);
  EXPECT_EQ(dense.bytes, bytes.size());
  EXPECT_EQ(values_tensor(Format::bf16, 0, 7, 7, bytes).bytes, 0U);
}

TEST(Input, nearest_bits_are_finite_and_ties_go_to_even) {
  EXPECT_EQ(nearest_bits(Format::bf16, 1), 0x3F80U);
  EXPECT_EQ(nearest_bits(Format::bf16, 1 + 0x1p-8), 0x3F80U);
  EXPECT_EQ(nearest_bits(Format::bf16, 1 + 0x3p-8), 0x3F82U);
  EXPECT_EQ(nearest_bits(Format::fp16, 1e9), 0x7BFFU);
  EXPECT_EQ(sign_bit(Format::fp32), 0x80000000U);
}

TEST(Input, words_become_finite_values_of_the_range_that_is_said) {
  for (const Format format : {Format::bf16, Format::e4m3, Format::e5m2}) {
    for (std::uint64_t i = 0; i < 2000; ++i)
      ASSERT_TRUE(std::isfinite(decode(format, any_finite(format, random_word(1, i))))) << i;
  }
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double u = four_uniforms(random_word(2, i));
    ASSERT_LE(std::fabs(u), 2);
    sum += u, squares += u * u;
  }
  // The variance is 4 / 12, the fourth moment 0.3: standard deviations of the two means are sqrt(1 / 3) / 100 = 0.0058
  // and sqrt(0.3 - 1 / 9) / 100 = 0.0043, of which the bounds are about five.
  EXPECT_NEAR(sum / 10'000, 0, 0.03);
  EXPECT_NEAR(squares / 10'000, 1.0 / 3, 0.02);
}

TEST(Rng, a_hundred_thousand_words_of_a_draw_are_spread_evenly) {
  Draw words(5);
  std::array<int, 10> bins{};
  for (int i = 0; i < 100'000; ++i) ++bins[words.below(10)];
  for (int n : bins) {
    EXPECT_NEAR(n, 10'000, 500);  // five times sqrt(100,000 * 0.1 * 0.9) = 95
  }
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t n = words.between(-3, 4);
    ASSERT_GE(n, -3);
    ASSERT_LE(n, 4);
  }
}

TEST(Rng, seeds_of_parts_follow_from_the_name_and_the_root) {
  EXPECT_NE(derived_seed(1, "a"), derived_seed(1, "b"));
  EXPECT_NE(derived_seed(1, "a"), derived_seed(2, "a"));
}

}  // namespace
}  // namespace mxcheck
