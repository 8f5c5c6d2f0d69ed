// Packed operands: panels, references and marks, and where codes of any width and stride are found again.

#include "reference/accumulate/operand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {
namespace {

TEST(PackedOperand, holds_codes_of_every_width_and_stride) {
  const Contract& exact = contract_named("exact");
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> halves;
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 12; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(0x30 + i));
    halves.push_back(static_cast<std::uint16_t>(0x3F80 + i));
    words.push_back(0x3F800000 + i);
  }
  const auto check = [&](Format format, const void* codes, auto code_at) {
    const PackedOperand rows(exact, format, {codes, 3, 4, 4});
    const PackedOperand columns(exact, format, {codes, 4, 3, 1, 4});
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) {
        const Factor want = factor(format, code_at(static_cast<std::size_t>(i * 4 + k)));
        for (const Factor& got : {rows.factor(i, k), columns.factor(k, i)}) {
          EXPECT_EQ(got.significand, want.significand);
          EXPECT_EQ(got.exponent, want.exponent);
        }
      }
    }
  };
  check(Format::e4m3, bytes.data(), [&](std::size_t i) { return bytes[i]; });
  check(Format::bf16, halves.data(), [&](std::size_t i) { return halves[i]; });
  check(Format::fp32, words.data(), [&](std::size_t i) { return words[i]; });
}

// A value is lane * 2^reference, the exponent lane + reference: of every code, in whole and in partial steps and
// panels.
TEST(PackedOperand, values_and_exponents_are_relative_to_the_steps_reference) {
  const Contract& contract = contract_named("sm90_fp8");
  constexpr std::int64_t kRows = 70;
  constexpr std::int64_t kK = 40;
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < kRows * kK; ++i) codes.push_back(static_cast<std::uint8_t>(i * 37 % 127));
  const PackedOperand x(contract, Format::e4m3, {codes.data(), kRows, kK, kK});
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t k = 0; k < 64; ++k) {
      const std::int64_t panel = row / 64;
      const std::int64_t step = k / 32;
      const std::int64_t lane = row % 64;
      const float value = x.values(panel, step)[k % 32].lane[lane];
      const std::int8_t exponent = x.exponents(panel, step)[k % 32].lane[lane];
      const int reference = x.references(panel, step).lane[lane];
      const Factor f = k < kK ? x.factor(row, k) : Factor{};
      if (f.significand == 0) {
        EXPECT_EQ(value, 0);
        EXPECT_EQ(exponent, PackedOperand::kZeroExponent);
      } else {
        EXPECT_EQ(std::ldexp(value, reference),
                  std::ldexp(static_cast<float>(f.significand), f.exponent - f.fraction_bits));
        EXPECT_EQ(exponent + reference, f.exponent);
        EXPECT_LE(exponent, 0);
      }
    }
  }
}

TEST(PackedOperand, marks_what_the_engine_must_not_decide) {
  std::vector<std::uint16_t> codes(64, 0);
  codes[16] = 0x7F80;                  // row 1: Inf
  codes[32] = 0x3F80, codes[33] = 31;  // row 2: 1 beside a code far below it
  const PackedOperand x(contract_named("sm90_bf16"), Format::bf16, {codes.data(), 4, 16, 16});
  EXPECT_EQ(x.references(0, 0).lane[0], PackedOperand::kZeroReference);
  EXPECT_EQ(x.references(0, 0).lane[1], PackedOperand::kSpecialReference);
  EXPECT_EQ(x.references(0, 0).lane[2], 0);
  EXPECT_TRUE(x.references(0, 0).deep);
  codes[33] = 0;
  EXPECT_FALSE(
      PackedOperand(contract_named("sm90_bf16"), Format::bf16, {codes.data(), 4, 16, 16}).references(0, 0).deep);
}

TEST(PackedOperand, takes_a_scale_into_the_reference) {
  const std::vector<std::uint8_t> codes(64, 0x38);  // 1
  const std::vector<std::uint8_t> scales{130, 255};
  OperandSource source{codes.data(), 2, 32, 32};
  source.scales = scales.data(), source.scale_row_stride = 1;
  const PackedOperand x(contract_named("sm100_mxf8f6f4"), Format::e4m3, source);
  EXPECT_EQ(x.references(0, 0).lane[0], 3);
  EXPECT_EQ(x.references(0, 0).lane[1], PackedOperand::kSpecialReference);
  EXPECT_EQ(*x.scales(1), 255);
}

}  // namespace
}  // namespace mxcheck
