// Decoded operands against factor(), for every code.
#include "emulation/sm100/tensor_core/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "numerics/accumulate/fused_sum.h"
#include "numerics/format/codec.h"

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

// --- the accumulator
// Words of D: sums to words against the codec's roundings, and words to addends.

// By the codec; a double holds every sum.
std::uint32_t right_word(const Output& out, std::int64_t sum, int unit) {
  const bool fp16 = out.exponent_bits == 5;
  const double value = std::ldexp(static_cast<double>(sum), unit);
  if (std::abs(value) >= std::ldexp(1.0, out.bias() + 1)) return out.infinity() | (sum < 0 ? out.sign() : 0);
  const std::uint32_t code =
      mxcheck::detail::encode_with(spec(fp16 ? Format::fp16 : Format::fp32), value,
                                   fp16 ? Rounding::nearest_even : Rounding::toward_zero, Overflow::non_saturate, 0);
  return (code & ~out.sign()) == 0 ? 0 : code;
}

TEST(Output, examples) {
  EXPECT_EQ(word_of(kFp32, 3, -1), 0x3FC00000U);
  EXPECT_EQ(word_of(kFp32, -3, -1), 0xBFC00000U);
  EXPECT_EQ(word_of(kFp32, 0, 5), 0U);
  EXPECT_EQ(word_of(kFp32, 0x1FFFFFF, 0), 0x4BFFFFFFU);    // 2^25 - 1, cut off
  EXPECT_EQ(word_of(kFp32, 1, -149), 1U);                  // the smallest subnormal
  EXPECT_EQ(word_of(kFp32, -1, -150), 0U);                 // cut off to +0
  EXPECT_EQ(word_of(kFp32, 0x1FFFFFF, 103), 0x7F7FFFFFU);  // below 2^128
  EXPECT_EQ(word_of(kFp32, 1, 128), 0x7F800000U);
  EXPECT_EQ(word_of(kFp32, -1, 300), 0xFF800000U);
  EXPECT_EQ(word_of(kFp16, 4097, -12), 0x3C00U);  // 1 + 2^-12, down
  EXPECT_EQ(word_of(kFp16, 2049, -11), 0x3C00U);  // a tie, to even
  EXPECT_EQ(word_of(kFp16, 2051, -11), 0x3C02U);  // a tie, to even
  EXPECT_EQ(word_of(kFp16, 4095, -12), 0x3C00U);  // carried to 1
  EXPECT_EQ(word_of(kFp16, 65519, 0), 0x7BFFU);   // the largest
  EXPECT_EQ(word_of(kFp16, -65520, 0), 0xFC00U);  // rounded to 2^16
  EXPECT_EQ(word_of(kFp16, 1, -25), 0U);          // half the smallest subnormal: a tie
  EXPECT_EQ(word_of(kFp16, 3, -26), 1U);
}

TEST(Output, words_are_the_codecs) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 400000; ++i) {
    const int bits = static_cast<int>(random() % 34);
    auto sum = static_cast<std::int64_t>(random() & ((std::uint64_t{1} << bits) - 1));
    if (random() % 4 == 0) sum &= ~std::int64_t{0} << random() % 34;  // ties
    if (random() % 2 == 0) sum = -sum;
    const bool fp16 = i % 2 == 0;
    const int unit = fp16 ? static_cast<int>(random() % 60) - 50 : static_cast<int>(random() % 290) - 158;
    const Output& out = fp16 ? kFp16 : kFp32;
    ASSERT_EQ(word_of(out, sum, unit), right_word(out, sum, unit))
        << sum << " * 2^" << unit << (fp16 ? " FP16" : " FP32");
  }
  EXPECT_EQ(word_of(kFp16, (std::int64_t{1} << 33) - 1, -158), 0U);
}

TEST(Output, addends_are_their_words_values) {
  std::mt19937 random(12);
  for (int i = 0; i < 200000; ++i) {
    const bool fp16 = i % 2 == 0;
    const Output& out = fp16 ? kFp16 : kFp32;
    const Format format = fp16 ? Format::fp16 : Format::fp32;
    const std::uint32_t word = static_cast<std::uint32_t>(random()) & (fp16 ? 0xFFFF : 0xFFFFFFFF);
    if ((word & out.infinity()) == out.infinity()) continue;
    const Addend c = addend_of(out, word);
    const double value = std::ldexp(static_cast<double>(c.magnitude), c.exponent - out.fraction_bits);
    ASSERT_EQ(c.negative ? -value : value, decode(format, word)) << word;
    ASSERT_EQ(units_of(out, c, c.exponent + 25 - out.fraction_bits), c.negative ? -c.magnitude : c.magnitude);
  }
  EXPECT_EQ(addend_of(kFp32, 0x80000000).exponent, kZeroExponent);
  EXPECT_EQ(units_of(kFp32, addend_of(kFp32, 0x80000000), -133), 0);
  EXPECT_EQ(units_of(kFp32, addend_of(kFp32, 0x3F800000), 25), 1);
  EXPECT_EQ(units_of(kFp32, addend_of(kFp32, 0xBFFFFFFF), 25), -1);  // toward zero
  EXPECT_EQ(units_of(kFp32, addend_of(kFp32, 0xBFFFFFFF), 26), 0);
  EXPECT_EQ(units_of(kFp32, addend_of(kFp32, 0x3F800000), 500), 0);
}

}  // namespace
}  // namespace mxcheck::emulation::sm100::detail
