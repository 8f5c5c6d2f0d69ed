#include "reference/matmul/operand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

// 4 x 6 codes of E4M3, each its own; blocks of 2 x 3, scales 2^(row of blocks * 2 + column of blocks).
struct Example {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales{127, 128, 129, 130};
  MatmulOperand operand;

  Example() {
    for (std::uint8_t i = 0; i < 24; ++i) codes.push_back(static_cast<std::uint8_t>(0x30 + i));
    operand.codes = codes.data(), operand.rows = 4, operand.depth = 6, operand.row_stride = 6;
    operand.block = {2, 3}, operand.scales = scales.data(), operand.scale_row_stride = 2;
  }
  [[nodiscard]] OperandWindow whole() const {
    OperandWindow w;
    w.operand = &operand, w.rows = 4, w.depth = 6;
    return w;
  }
};

TEST(OperandWindow, reads_codes_and_the_scale_of_their_block) {
  const Example x;
  const OperandWindow w = x.whole();
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t k = 0; k < 6; ++k) {
      EXPECT_EQ(w.code(i, k), 0x30U + static_cast<std::uint32_t>(i * 6 + k));
      EXPECT_EQ(w.scale(i, k), std::ldexp(1.0F, static_cast<int>(i / 2 * 2 + k / 3)));
    }
  }
  const OperandWindow lower = w.rows_from(2, 2);
  EXPECT_EQ(lower.rows, 2);
  EXPECT_EQ(lower.code(1, 5), w.code(3, 5));
  EXPECT_EQ(lower.scale(1, 5), w.scale(3, 5));
}

TEST(OperandWindow, follows_an_index_and_starts_at_its_first_k) {
  const Example x;
  const std::vector<std::int32_t> index{3, 0, 0};
  OperandWindow w = x.whole();
  w.index = index.data(), w.rows = 3, w.first_k = 3, w.depth = 3, w.scale_depth = 1;
  EXPECT_EQ(w.code(0, 0), 0x30U + 21);
  EXPECT_EQ(w.scale(0, 0), 8.0F);
  EXPECT_EQ(w.rows_from(1, 2).code(1, 2), 0x30U + 5);
  EXPECT_EQ(w.rows_from(1, 2).scale(1, 2), 2.0F);
}

TEST(OperandWindow, has_scales_of_1_or_of_any_format) {
  Example x;
  x.scales[0] = 255;
  EXPECT_TRUE(std::isnan(x.whole().scale(0, 0)));
  x.operand.scale_format = Format::e4m3, x.scales[0] = 0xB8;  // UE4M3: the sign is ignored
  EXPECT_EQ(x.whole().scale(0, 0), 1.0F);
  const std::vector<float> floats{0.75F, 1, 2, 3};
  x.operand.scale_format = Format::fp32, x.operand.scales = floats.data();
  EXPECT_EQ(x.whole().scale(1, 2), 0.75F);
  x.operand.block = {0, 0};
  EXPECT_EQ(x.whole().scale(3, 5), 1.0F);
}

// Every code under every scale byte, and under FP32 scales that no BF16 holds: the exact product rounded once.
TEST(Operand, is_decoded_to_the_nearest_bf16) {
  std::vector<std::uint8_t> codes(256), bytes(256);
  std::vector<float> floats{0.1F, 1 + 0x1p-8F, 0x1.000002p-130F, 0x1.fffffep127F, -3.3F, 0, INFINITY, NAN};
  for (std::size_t i = 0; i < 256; ++i) codes[i] = bytes[i] = static_cast<std::uint8_t>(i);
  for (const Format format : {Format::e4m3, Format::e5m2, Format::e2m1, Format::mxint8}) {
    const std::uint32_t mask = (1U << spec(format).bits) - 1;
    MatmulOperand x;
    x.format = format, x.codes = codes.data(), x.rows = 1, x.depth = 256, x.row_stride = 256, x.block = {1, 256};
    for (std::size_t i = 0; i < bytes.size() + floats.size(); ++i) {
      const bool e8m0 = i < bytes.size();
      x.scale_format = e8m0 ? Format::e8m0 : Format::fp32;
      x.scales = e8m0 ? static_cast<const void*>(&bytes[i]) : &floats[i - bytes.size()];
      OperandWindow w;
      w.operand = &x, w.rows = 1, w.depth = 256;
      const double scale = e8m0 ? decode(Format::e8m0, bytes[i]) : static_cast<double>(floats[i - bytes.size()]);
      const std::vector<std::uint16_t> words = decoded_bf16(w);
      for (std::size_t code = 0; code < 256; ++code) {
        const double value = decode(format, codes[code] & mask) * scale;
        ASSERT_EQ(words[code], encode<Bf16>(value, Rounding::nearest_even, Overflow::non_saturate).bits)
            << spec(format).name << " " << code << " * " << scale;
      }
    }
  }
}

TEST(Operand, gathers_codes_whatever_the_strides) {
  const Example x;
  const std::vector<std::byte> rows = gathered_codes(x.whole());
  ASSERT_EQ(rows.size(), 24U);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(rows[i], static_cast<std::byte>(x.codes[i]));
  Example y;
  y.operand.rows = 6, y.operand.depth = 4, y.operand.row_stride = 1, y.operand.depth_stride = 6;
  OperandWindow w = y.whole();
  w.rows = 6, w.depth = 4;
  const std::vector<std::byte> columns = gathered_codes(w);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(columns[i], static_cast<std::byte>(x.codes[i % 4 * 6 + i / 4]));
  EXPECT_EQ(code_width(Format::e2m1), 1U);
  EXPECT_EQ(code_width(Format::e5m6), 2U);
  EXPECT_EQ(code_width(Format::fp32), 4U);
}

TEST(Operand, decodes_codes_with_their_scales) {
  Example x;
  x.codes[0] = 0x7E, x.codes[23] = 0x7F;  // 448, NaN
  x.scales[0] = 254;                      // 448 * 2^127 is beyond BF16 and FP32
  const std::vector<std::uint16_t> bf16 = decoded_bf16(x.whole());
  const std::vector<std::uint32_t> fp32 = decoded_fp32(x.whole());
  EXPECT_EQ(bf16[0], 0x7F80);
  EXPECT_EQ(fp32[0], 0x7F800000U);
  EXPECT_EQ(bf16[23], 0x7FC0);
  EXPECT_EQ(fp32[12], 0x40C00000U);  // 1.5 * 4
}

TEST(Operand, exact_factors_hold_the_scale) {
  const Example x;
  const std::vector<Factor> plain = plain_factors(contract_named("exact"), x.whole(), 3);
  const std::vector<Factor> exact = exact_factors(x.whole(), 3);
  ASSERT_EQ(exact.size(), 6U);
  for (std::size_t k = 0; k < 6; ++k) {
    const auto value = [](const Factor& f) { return std::ldexp(f.significand, f.exponent - f.fraction_bits); };
    EXPECT_EQ(value(exact[k]), value(plain[k]) * (k < 3 ? 4 : 8));
  }
  EXPECT_EQ(step_scales(x.whole(), 3, 3), (std::vector<std::uint8_t>{129, 130}));
}

TEST(Operand, exact_factors_refuse_scales_that_need_more_than_32_bits) {
  const std::vector<std::uint32_t> words{0x3FFFFFFF};
  const std::vector<float> scales{0x1.fffffep0F};
  MatmulOperand operand;
  operand.format = Format::fp32, operand.codes = words.data(), operand.rows = operand.depth = 1;
  operand.block = {1, 1}, operand.scale_format = Format::fp32, operand.scales = scales.data();
  OperandWindow w;
  w.operand = &operand, w.rows = w.depth = 1;
  EXPECT_THROW((void)exact_factors(w, 0), Error);
}

}  // namespace
}  // namespace mxcheck
