// Decoded operands against factor(), for every code.

#include "emulation/sm100/tensor_core/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "numerics/accumulate/fused_sum.h"

namespace mxcheck::emulation::sm100::detail {
namespace {

TEST(Operand, every_code_is_its_factor) {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::fp16}) {
    const FormatSpec& f = spec(format);
    for (std::uint32_t code = 0; code < 1U << f.bits; ++code) {
      const Factor right = factor(format, code);
      for (const bool negate : {false, true}) {
        const Element e = element_of(f, code, negate);
        ASSERT_EQ(e.negative, right.negative != negate) << f.name << " " << code;
        ASSERT_EQ(e.kind == Class::nan, right.kind == Factor::Kind::nan) << f.name << " " << code;
        ASSERT_EQ(e.kind == Class::infinite, right.kind == Factor::Kind::infinite) << f.name << " " << code;
        ASSERT_EQ(e.kind == Class::zero, right.kind == Factor::Kind::finite && right.significand == 0);
        ASSERT_EQ(std::abs(e.significand), static_cast<float>(right.significand)) << f.name << " " << code;
        if (e.kind != Class::finite) {
          ASSERT_EQ(e.exponent, kZeroExponent) << f.name << " " << code;
          continue;
        }
        ASSERT_EQ(e.exponent, right.exponent) << f.name << " " << code;
        ASSERT_EQ(std::signbit(e.significand), e.negative) << f.name << " " << code;
      }
    }
  }
}

TEST(Operand, rows_have_their_codes_scales_and_specials) {
  std::vector<std::uint8_t> codes(4 * 32, 0x38);
  codes[1 * 32 + 31] = 0x7F;
  codes[2 * 32 + 5] = 0xB8;
  const std::array<std::uint8_t, 4> scales{0, 127, 254, 255};
  const Operand a(Format::e4m3, false, codes.data(), scales.data(), 4, 32);
  EXPECT_EQ(a.at(2, 4).significand, 8);
  EXPECT_EQ(a.at(2, 5).significand, -8);
  EXPECT_EQ(a.exponent(0), -127);
  EXPECT_EQ(a.exponent(2), 127);
  EXPECT_TRUE(!a.special(0) && a.special(1) && !a.special(2) && a.special(3));
  EXPECT_TRUE(!a.nan_scale(1) && !a.nan_scale(2) && a.nan_scale(3));
  const Operand unscaled(Format::e4m3, true, codes.data(), nullptr, 4, 32);
  EXPECT_EQ(unscaled.at(2, 5).significand, 8);
  EXPECT_EQ(unscaled.exponent(0), 0);
  EXPECT_FALSE(unscaled.special(3));
}

TEST(Operand, codes_of_16_bits_are_little_endian) {
  const std::array<std::uint8_t, 4> codes{0x80, 0x3F, 0x00, 0xC0};  // 1 and -2 in BF16
  const Operand a(Format::bf16, false, codes.data(), nullptr, 2, 1);
  EXPECT_EQ(a.at(0, 0).significand, 128);
  EXPECT_EQ(a.at(0, 0).exponent, 0);
  EXPECT_EQ(a.at(1, 0).significand, -128);
  EXPECT_EQ(a.at(1, 0).exponent, 1);
}

}  // namespace
}  // namespace mxcheck::emulation::sm100::detail
