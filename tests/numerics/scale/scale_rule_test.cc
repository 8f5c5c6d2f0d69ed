#include "numerics/scale/scale_rule.h"

#include <gtest/gtest.h>

#include <bit>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "tests/numerics/oracle.h"

namespace mxcheck {
namespace {

using Digits = boost::multiprecision::cpp_dec_float_100;

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t as_bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// The patterns next to where each rule changes: powers of two and vmax times powers of two, and the subnormals' ends.
std::vector<std::uint32_t> boundary_amax(Format element) {
  std::vector<std::uint32_t> result{0, 1, 2, 0xE0, 0x10000, 0x3FFFFF, 0x400000, 0x400001, 0x7F7FFFFF};
  const std::uint32_t top = as_bits(largest_value(element)) & 0x7FFFFF;
  for (std::uint32_t field = 0; field < 255; ++field) {
    for (const std::uint32_t mantissa : {0U, top, 0x400000U, 0x780000U, 0x700000U, 0x7FFFFFU}) {
      const std::uint32_t bits = field << 23 | mantissa;
      for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
        if (near < 0x7F800000) result.push_back(near);
      }
    }
  }
  return result;
}

TEST(ScaleRule, names_are_found_again) {
  for (int i = 0; i < 13; ++i) {
    const auto rule = static_cast<ScaleRule>(i);
    EXPECT_EQ(find_scale_rule(to_text(rule)), rule) << to_text(rule);
  }
  EXPECT_EQ(to_text(ScaleRule::floor_log2), "floor_log2");
  EXPECT_EQ(find_scale_rule("rciel"), std::nullopt);
}

TEST(ScaleRule, largest_values_are_those_of_the_formats) {
  EXPECT_EQ(largest_value(Format::e4m3), 448.0F);
  EXPECT_EQ(largest_value(Format::e5m2), 57344.0F);
  EXPECT_EQ(largest_value(Format::e2m1), 6.0F);
  EXPECT_EQ(largest_value(Format::e2m3), 7.5F);
  EXPECT_EQ(largest_value(Format::e3m2), 28.0F);
  EXPECT_EQ(largest_value(Format::mxint8), 1.984375F);
  EXPECT_EQ(largest_value(Format::e5m6), 65024.0F);
  EXPECT_EQ(as_bits(reciprocal_of_largest_value(Format::e4m3)), 0x3B124925U);
}

TEST(ScaleRule, exact_rules_are_the_rational_ones_next_to_every_boundary) {
  for (const Format element : kQuantizedFormats) {
    for (const std::uint32_t bits : boundary_amax(element)) {
      const float a = as_float(bits);
      ASSERT_EQ(scale_byte(ScaleRule::rceil, element, a), oracle::rceil_byte(element, a)) << std::hexfloat << a;
      ASSERT_EQ(scale_byte(ScaleRule::floor, element, a), oracle::floor_byte(element, a)) << std::hexfloat << a;
      ASSERT_EQ(scale_byte(ScaleRule::ceil, element, a), oracle::ceil_byte(element, a)) << std::hexfloat << a;
    }
  }
}

TEST(ScaleRule, the_sign_of_amax_is_ignored) {
  for (int i = 0; i < 13; ++i) {
    const auto rule = static_cast<ScaleRule>(i);
    if (rule == ScaleRule::fp32) continue;
    for (const std::uint32_t bits : boundary_amax(Format::e4m3)) {
      ASSERT_EQ(scale_byte(rule, Format::e4m3, as_float(bits)), scale_byte(rule, Format::e4m3, -as_float(bits)))
          << to_text(rule) << " 0x" << std::hex << bits;
    }
  }
}

// Computing in FP32 is the exact rule but for one float a format, one ulp above vmax * 2^-127.
TEST(ScaleRule, fp32_shortcuts_miss_one_float_a_format) {
  const struct {
    Format element;
    std::uint32_t bits;
  } cases[] = {{Format::e4m3, 0x04600001}, {Format::e5m2, 0x07E00001}, {Format::e2m1, 0x01400001}};
  for (const auto& c : cases) {
    EXPECT_EQ(scale_byte(ScaleRule::rceil, c.element, as_float(c.bits)), 1) << spec(c.element).name;
    EXPECT_EQ(scale_byte(ScaleRule::rceil_fp32, c.element, as_float(c.bits)), 0) << spec(c.element).name;
    EXPECT_EQ(e8m0_round_up(as_float(c.bits) / largest_value(c.element)), 0) << "dividing is no better";
    EXPECT_EQ(scale_byte(ScaleRule::rceil_fp32, c.element, as_float(c.bits + 1)), 1) << spec(c.element).name;
  }
  for (const std::uint32_t bits : boundary_amax(Format::e4m3)) {
    if (bits == 0x04600001) continue;
    ASSERT_EQ(scale_byte(ScaleRule::rceil_fp32, Format::e4m3, as_float(bits)),
              scale_byte(ScaleRule::rceil, Format::e4m3, as_float(bits)))
        << std::hex << bits;
  }
}

TEST(ScaleRule, floor_in_fp32_misses_0x047fffff) {
  EXPECT_EQ(scale_byte(ScaleRule::floor, Format::e4m3, as_float(0x047FFFFF)), 0);
  EXPECT_EQ(scale_byte(ScaleRule::floor_fp32, Format::e4m3, as_float(0x047FFFFF)), 1);
  EXPECT_EQ(scale_byte(ScaleRule::floor_fp32, Format::e4m3, as_float(0x047FFFFE)), 0);
}

TEST(ScaleRule, finite_amax_reaches_these_bytes_and_no_others) {
  const struct {
    ScaleRule rule;
    Format element;
    int largest;
  } cases[] = {{ScaleRule::rceil, Format::e4m3, 247},
               {ScaleRule::rceil, Format::e5m2, 240},
               {ScaleRule::floor, Format::e4m3, 246}};
  for (const auto& c : cases) {
    std::vector<bool> seen(256);
    for (const std::uint32_t bits : boundary_amax(c.element))
      seen[scale_byte(c.rule, c.element, as_float(bits))] = true;
    for (int byte = 0; byte < 256; ++byte) {
      EXPECT_EQ(seen[static_cast<std::size_t>(byte)], byte <= c.largest) << to_text(c.rule) << " byte " << byte;
    }
  }
}

// Where amax / 2^e lands, which is what the rules are for.
TEST(ScaleRule, scaled_amax_lands_in_the_rules_interval) {
  const struct {
    ScaleRule rule;
    double above, below;
    bool open_below, open_above;
  } cases[] = {{ScaleRule::rceil, 224, 448, true, false},
               {ScaleRule::floor, 256, 512, false, true},
               {ScaleRule::ceil, 128, 256, true, false},
               {ScaleRule::even, 248, 496, false, true}};
  for (const auto& c : cases) {
    for (const std::uint32_t bits : boundary_amax(Format::e4m3)) {
      const double a = as_float(bits);
      if (a < 0x1p-100 || a > 0x1p127) continue;
      const double scaled = a / decode(Format::e8m0, scale_byte(c.rule, Format::e4m3, as_float(bits)));
      ASSERT_TRUE(c.open_below ? scaled > c.above : scaled >= c.above) << to_text(c.rule) << std::hexfloat << " " << a;
      ASSERT_TRUE(c.open_above ? scaled < c.below : scaled <= c.below) << to_text(c.rule) << std::hexfloat << " " << a;
    }
  }
}

TEST(ScaleRule, even_carry_differs_from_even_where_that_carries_into_the_nan_byte) {
  EXPECT_EQ(scale_byte(ScaleRule::even_carry, Format::e4m3, 0x1.effffep127F), 246);
  EXPECT_EQ(scale_byte(ScaleRule::even_carry, Format::e4m3, 0x1.fp127F), 247);
  EXPECT_EQ(scale_byte(ScaleRule::even_carry, Format::e2m1, 0x1.cp127F), 253);
  for (const Format element : {Format::e4m3, Format::e5m2, Format::e2m1}) {
    for (const std::uint32_t bits : boundary_amax(element)) {
      const auto even = scale_byte(ScaleRule::even, element, as_float(bits));
      if (even == 255) continue;
      ASSERT_EQ(scale_byte(ScaleRule::even_carry, element, as_float(bits)), even) << std::hex << bits;
    }
  }
}

TEST(ScaleRule, floor_ceil_and_even_carry_take_infinity_for_two_to_the_128) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::ceil, ScaleRule::even_carry}) {
    EXPECT_EQ(scale_byte(rule, Format::e4m3, kInf), 247) << to_text(rule);
    EXPECT_EQ(scale_byte(rule, Format::e2m1, kInf), 253) << to_text(rule);
  }
}

TEST(ScaleRule, even_carries_a_finite_amax_into_the_nan_byte) {
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 0x1.effffep127F), 246);
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 0x1.fp127F), 255);
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 496), 128);
  EXPECT_EQ(scale_byte(ScaleRule::even, Format::e4m3, 495.99997F), 127);
}

TEST(ScaleRule, e8m0_round_up_follows_the_table_of_the_field) {
  const struct {
    std::uint32_t bits;
    int byte;
  } rows[] = {{0, 0},
              {1, 0},
              {0x400000, 0},
              {0x400001, 1},
              {0x7FFFFF, 1},
              {0x800000, 1},
              {0x1F800000, 63},
              {0x1F800001, 64},
              {0x3F7FFFFF, 127},
              {0x3F800000, 127},
              {0x3F800001, 128},
              {0x5F800001, 192},
              {0x7F000000, 254},
              {0x7F000001, 255},
              {0x7F7FFFFF, 255},
              {0x7F800000, 255},
              {0x7FC00000, 255}};
  for (const auto& row : rows) {
    EXPECT_EQ(e8m0_round_up(as_float(row.bits)), row.byte) << std::hex << row.bits;
    EXPECT_EQ(encode(Format::e8m0, as_float(row.bits), Rounding::upward, Overflow::non_saturate),
              static_cast<std::uint32_t>(row.byte))
        << std::hex << row.bits;
  }
}

// At each exponent find, with 100 digits, where RN(log2 x) leaves the integer on either side, and check the floats
// around both places. (Between them the two functions are constant: floats that round to no integer have its
// neighbours.)
TEST(ScaleRule, rounded_log2_is_cut_to_integers_as_100_digits_say) {
  const Digits ln2 = log(Digits(2));
  const auto rounded = [&](float x) { return static_cast<float>(Digits(log(Digits(x)) / ln2)); };
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const std::uint32_t power = as_bits(std::ldexp(1.0F, exponent));
    std::vector<std::uint32_t> checked{power};
    for (const int direction : {-1, 1}) {
      std::uint32_t near = power;
      std::uint32_t far = power + static_cast<std::uint32_t>(direction * 512);
      if (exponent < -126)
        far = power + static_cast<std::uint32_t>(direction * static_cast<int>(std::min(power / 2, 512U)));
      if (far == 0 || far >= 0x7F800000) continue;
      while (near + static_cast<std::uint32_t>(direction) != far && near != far) {
        const std::uint32_t middle = near + static_cast<std::uint32_t>((static_cast<int>(far - near)) / 2);
        (rounded(as_float(middle)) == static_cast<float>(exponent) ? near : far) = middle;
      }
      for (std::uint32_t at = near - 2; at != near + 3; ++at) checked.push_back(at);
    }
    for (const std::uint32_t bits : checked) {
      if (bits == 0 || bits >= 0x7F800000) continue;
      const float x = as_float(bits);
      ASSERT_EQ(floor_of_rounded_log2(x), static_cast<int>(std::floor(rounded(x)))) << "0x" << std::hex << bits;
      ASSERT_EQ(ceil_of_rounded_log2(x), static_cast<int>(std::ceil(rounded(x)))) << "0x" << std::hex << bits;
    }
  }
}

TEST(ScaleRule, log2_rounds_up_to_an_integer_from_0x43fffffb_on) {
  EXPECT_EQ(floor_of_rounded_log2(as_float(0x43FFFFFB)), 9);
  EXPECT_EQ(floor_of_rounded_log2(as_float(0x43FFFFFA)), 8);
  EXPECT_EQ(ceil_of_rounded_log2(as_float(0x44000002)), 9);
  EXPECT_EQ(ceil_of_rounded_log2(as_float(0x44000003)), 10);
  EXPECT_EQ(floor_of_rounded_log2(as_float(0x7F7FFFFF)), 128);  // the last floats round to 2^128's logarithm
  EXPECT_EQ(ceil_of_rounded_log2(as_float(1)), -149);
  EXPECT_EQ(scale_byte(ScaleRule::floor_log2, Format::e4m3, as_float(0x43FFFFFB)), 128);
  EXPECT_EQ(scale_byte(ScaleRule::floor_log2, Format::e4m3, as_float(0x43FFFFFA)), 127);
}

TEST(ScaleRule, rounding_amax_to_bf16_first_changes_32768_floats_a_binade) {
  for (const ScaleRule rule : {ScaleRule::rceil, ScaleRule::floor}) {
    int changed = 0;
    for (std::uint32_t mantissa = 0; mantissa < 0x800000; ++mantissa) {
      const float a = as_float(0x3F800000 | mantissa);
      const float b = as_float(encode<Bf16>(a, Rounding::nearest_even, Overflow::saturate).bits * 0x10000U);
      changed += scale_byte(rule, Format::e4m3, a) != scale_byte(rule, Format::e4m3, b) ? 1 : 0;
    }
    EXPECT_EQ(changed, 32768) << to_text(rule);
  }
}

TEST(ScaleRule, a_product_computed_in_bf16_is_wrong_for_248_bf16_amax) {
  const auto to_bf16 = [](double x) {
    return as_float(encode<Bf16>(x, Rounding::nearest_even, Overflow::non_saturate).bits * 0x10000U);
  };
  int wrong = 0;
  for (std::uint32_t bits = 1; bits < 0x7F80; ++bits) {
    const float a = as_float(bits << 16);
    const float product = to_bf16(static_cast<double>(a) * static_cast<double>(to_bf16(1.0 / 448)));
    wrong += e8m0_round_up(product) != scale_byte(ScaleRule::rceil, Format::e4m3, a) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 248);
}

TEST(ScaleRule, fp32_scales_have_no_byte) {
  try {
    scale_byte(ScaleRule::fp32, Format::e4m3, 1);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
  }
}

}  // namespace
}  // namespace mxcheck
