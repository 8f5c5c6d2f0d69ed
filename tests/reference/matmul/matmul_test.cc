// Matmuls against a second way to compute each output: the plain model and IEEE operations, one output at a time.

#include "reference/matmul/matmul.h"
#include "numerics/format/codec.h"
#include "reference/matmul/operand.h"
#include "tests/reference/matmul/test_matmul.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

float word(std::uint32_t bits) { return std::bit_cast<float>(bits); }

float scale_of(const MatmulOperand& x, std::int64_t row, std::int64_t block) {
  if (!x.scaled()) return 1;
  const std::int64_t at = row * x.scale_row_stride + block;
  if (x.scale_format == Format::fp32) return static_cast<const float*>(x.scales)[at];
  return static_cast<float>(decode(Format::e8m0, static_cast<const std::uint8_t*>(x.scales)[at]));
}

// The output of row i of a and row j of b, both of the operand, over k in [begin, end), promoted every 128 from begin.
// scale_row_b and first_block say where that part's scales are.
float promoted(const Matmul& m, std::int64_t i, std::int64_t j, std::int64_t begin, std::int64_t end,
               std::int64_t scale_row_b, std::int64_t first_block) {
  float acc = 0;
  for (std::int64_t k = begin; k < end; k += 128) {
    std::vector<Factor> fa;
    std::vector<Factor> fb;
    for (std::int64_t t = k; t < std::min(end, k + 128); ++t) {
      fa.push_back(factor(Format::e4m3, static_cast<const std::uint8_t*>(m.a.codes)[i * m.a.row_stride + t]));
      fb.push_back(factor(Format::e4m3, static_cast<const std::uint8_t*>(m.b.codes)[j * m.b.row_stride + t]));
    }
    const float sum = word(accumulate(*m.contract.sum, fa, fb, 0));
    const std::int64_t block = first_block + (k - begin) / 128;
    acc = std::fma(sum, scale_of(m.a, i, block) * scale_of(m.b, scale_row_b, block), acc);
  }
  return acc;
}

TEST(Matmul, promotes_every_128_with_both_kinds_of_scales) {
  for (const Format scale : {Format::e8m0, Format::fp32}) {
    for (const BlockShape block_b : {BlockShape{128, 128}, BlockShape{1, 128}}) {
      Owned o;
      fill(o, "sm90_fp8+promote128", {70, 300, 520}, {1, 128}, block_b, scale, 1);
      const std::vector<float> d = run(o.m);
      for (std::int64_t i = 0; i < 70; i += 3) {
        for (std::int64_t j = 0; j < 300; ++j)
          ASSERT_EQ(d[static_cast<std::size_t>(i * 300 + j)], promoted(o.m, i, j, 0, 520, j / block_b.rows, 0))
              << i << " " << j;
      }
    }
  }
}

TEST(Matmul, groups_of_rows_meet_their_experts_matrix) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {90, 33, 256, 4}, {1, 128}, {128, 128}, Format::fp32, 2);
  o.offsets = {0, 1, 1, 66, 90};
  o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
  const std::vector<float> d = run(o.m);
  for (std::int64_t i = 0; i < 90; ++i) {
    const std::int64_t e = i < 1 ? 0 : i < 66 ? 2 : 3;
    for (std::int64_t j = 0; j < 33; ++j)
      ASSERT_EQ(d[static_cast<std::size_t>(i * 33 + j)], promoted(o.m, i, e * 33 + j, 0, 256, e, 0)) << i << " " << j;
  }
}

TEST(Matmul, masked_groups_write_the_rows_up_to_their_counts_alone) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {4 * 20, 33, 256, 4}, {1, 128}, {128, 128}, Format::fp32, 2);
  o.counts = {20, 0, 1, 13};
  o.m.grouping = Grouping::masked, o.m.counts = o.counts;
  EXPECT_EQ(o.m.capacity(), 20);
  const std::vector<float> d = run(o.m);
  for (std::int64_t row = 0; row < 80; ++row) {
    const std::int64_t e = row / 20;
    const bool inside = row % 20 < o.counts[static_cast<std::size_t>(e)];
    EXPECT_EQ(o.m.writes_row(row), inside);
    for (std::int64_t j = 0; j < 33; ++j) {
      const float expected = inside ? promoted(o.m, row, e * 33 + j, 0, 256, e + j / 128, 0) : -77;
      ASSERT_EQ(d[static_cast<std::size_t>(row * 33 + j)], expected) << row << " " << j;
    }
  }
  const ExplainedOutput one = explain_output(o.m, 0, 3 * 20 + 12, 5);
  EXPECT_EQ(one.word, std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>(72 * 33 + 5)]));
  EXPECT_TRUE(explain_output(o.m, 0, 25, 5).lines.empty());  // of no group
}

TEST(Matmul, counts_that_no_masked_group_can_have_are_refused) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {12, 8, 128, 3}, {1, 128}, {1, 128}, Format::fp32, 2);
  o.m.grouping = Grouping::masked;
  const auto refused = [&](std::vector<std::int64_t> counts) {
    o.counts = std::move(counts), o.m.counts = o.counts;
    return thrown_by([&] { check_matmul(o.m); }).text;
  };
  EXPECT_EQ(refused({4, 0, 4}), "nothing thrown");
  EXPECT_EQ(refused({4, 5, 4}), "masked group 1 has 5 rows: 0 to its capacity, 4, are possible");
  EXPECT_EQ(refused({4, 0, -1}), "masked group 2 has -1 rows: 0 to its capacity, 4, are possible");
  EXPECT_EQ(refused({1, 1, 1, 1, 1}), "masked groups divide rows into equal parts: 12 rows, 5 counts");
  EXPECT_EQ(refused({}), "masked groups divide rows into equal parts: 12 rows, 0 counts");
  o.counts = {4, 4, 4}, o.m.counts = o.counts, o.m.gathers = true, o.index.assign(12, 0), o.m.row_index = o.index;
  EXPECT_EQ(thrown_by([&] { check_matmul(o.m); }).text, "masked groups have no row index");
}

TEST(Matmul, groups_of_depth_sum_over_their_own_k) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {20, 33, 600}, {1, 128}, {1, 128}, Format::e8m0, 3);
  o.offsets = {0, 130, 130, 600};
  o.m.grouping = Grouping::depth, o.m.offsets = o.offsets;
  const std::vector<float> d = run(o.m);
  const std::int64_t first_block[] = {0, 2, 2};
  for (std::int64_t e = 0; e < 3; ++e) {
    for (std::int64_t i = 0; i < 20; ++i) {
      for (std::int64_t j = 0; j < 33; ++j) {
        const float want = promoted(o.m, i, j, o.offsets[static_cast<std::size_t>(e)],
                                    o.offsets[static_cast<std::size_t>(e) + 1], j, first_block[e]);
        ASSERT_EQ(d[static_cast<std::size_t>((e * 20 + i) * 33 + j)], want) << e << " " << i << " " << j;
        if (e == 1) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>((e * 20 + i) * 33 + j)]), 0U);
        }
      }
    }
  }
}

TEST(Matmul, rows_are_gathered_with_their_scales) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {9, 40, 256}, {1, 128}, {128, 128}, Format::e8m0, 4);
  o.index = {8, 0, 0, 3, 7, 8};
  o.m.gathers = true, o.m.row_index = o.index;
  const std::vector<float> d = run(o.m);
  for (std::size_t i = 0; i < o.index.size(); ++i) {
    for (std::int64_t j = 0; j < 40; ++j)
      ASSERT_EQ(d[i * 40 + static_cast<std::size_t>(j)], promoted(o.m, o.index[i], j, 0, 256, 0, 0));
  }
}

TEST(Matmul, alpha_then_c_then_the_outputs_type) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {5, 7, 128}, {1, 128}, {128, 128}, Format::fp32, 5);
  const std::vector<float> plain = run(o.m);
  std::mt19937 random(6);
  std::vector<std::uint16_t> c;
  for (int i = 0; i < 35; ++i)
    c.push_back(static_cast<std::uint16_t>(
        encode(Format::bf16, std::normal_distribution<double>()(random), Rounding::nearest_even, Overflow::saturate)));
  o.m.alpha = 1.0F / 3, o.m.c = c.data(), o.m.output = Format::bf16;
  std::vector<std::uint16_t> d(35);
  matmul(o.m, d.data());
  for (std::size_t i = 0; i < 35; ++i) {
    const float scaled = o.m.alpha * plain[i];
    const float value = scaled + static_cast<float>(decode(Format::bf16, c[i]));
    EXPECT_EQ(d[i], encode(Format::bf16, value, Rounding::nearest_even, Overflow::non_saturate));
  }
}

TEST(Matmul, decodes_to_bf16_and_then_sums) {
  Owned o;
  fill(o, "sm90_bf16+decode", {17, 65, 96}, {1, 32}, {1, 32}, Format::e8m0, 7);
  const std::vector<float> d = run(o.m);
  const auto decoded = [](const MatmulOperand& x, std::int64_t row, std::int64_t k) {
    const double value = decode(Format::e4m3, static_cast<const std::uint8_t*>(x.codes)[row * x.row_stride + k]) *
                         double{scale_of(x, row, k / 32)};
    return factor(Format::bf16, encode(Format::bf16, value, Rounding::nearest_even, Overflow::non_saturate));
  };
  for (std::int64_t i = 0; i < 17; ++i) {
    for (std::int64_t j = 0; j < 65; ++j) {
      std::vector<Factor> fa;
      std::vector<Factor> fb;
      for (std::int64_t k = 0; k < 96; ++k) fa.push_back(decoded(o.m.a, i, k)), fb.push_back(decoded(o.m.b, j, k));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>(i * 65 + j)]),
                accumulate(contract_named("sm90_bf16"), fa, fb, 0));
    }
  }
}

// With scales that are powers of two, and nothing that leaves FP32's range, exact sums say what every order must.
TEST(Matmul, exact_takes_scales_into_the_sum) {
  for (const Format scale : {Format::e8m0, Format::fp32}) {
    Owned o;
    fill(o, "exact", {4, 5, 96}, {1, 32}, {1, 32}, scale, 8);
    const std::vector<float> d = run(o.m);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        long double sum = 0;  // 64 bits: FP32 scales lose some, so the comparison is by half an ulp of FP32
        for (std::int64_t k = 0; k < 96; ++k)
          sum += static_cast<long double>(decode(Format::e4m3, o.a[static_cast<std::size_t>(i * 96 + k)])) *
                 scale_of(o.m.a, i, k / 32) *
                 static_cast<long double>(decode(Format::e4m3, o.b[static_cast<std::size_t>(j * 96 + k)])) *
                 scale_of(o.m.b, j, k / 32);
        EXPECT_EQ(d[static_cast<std::size_t>(i * 5 + j)], static_cast<float>(sum));
      }
    }
  }
}

TEST(Matmul, orders_of_scales_and_of_k_are_told_apart) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {30, 40, 640}, {1, 128}, {128, 128}, Format::fp32, 9);
  const std::vector<float> product = run(o.m);
  for (const char* other : {"sm90_fp8+promote128+a_first", "sm90_fp8+promote128+b_first",
                            "sm90_fp8+promote128+descending", "sm90_fp8+promote64", "exact", "ieee_fp32"}) {
    o.m.contract = parse_matmul_contract(other);
    EXPECT_NE(run(o.m), product) << other;
  }
}

TEST(Matmul, a_transposed_operand_is_the_same_operand) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {30, 40, 256}, {1, 128}, {1, 128}, Format::e8m0, 10);
  const std::vector<float> d = run(o.m);
  std::vector<std::uint8_t> transposed(o.a.size());
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t k = 0; k < 256; ++k) transposed[k * 30 + i] = o.a[i * 256 + k];
  }
  o.m.a.codes = transposed.data(), o.m.a.row_stride = 1, o.m.a.depth_stride = 30;
  EXPECT_EQ(run(o.m), d);
}

TEST(Matmul, threads_change_nothing) {
  Owned o;
  fill(o, "sm90_bf16+decode", {257, 130, 64}, {1, 32}, {1, 32}, Format::e8m0, 11);
  o.m.threads = 1;
  const std::vector<float> d = run(o.m);
  for (int threads : {2, 3, 8}) {
    o.m.threads = threads;
    EXPECT_EQ(run(o.m), d);
  }
}

TEST(Matmul, empty_ones_are_defined) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {3, 4, 0}, {1, 128}, {128, 128}, Format::e8m0, 13);
  for (float d : run(o.m)) EXPECT_EQ(std::bit_cast<std::uint32_t>(d), 0U);
  o.m.a.rows = 0;
  EXPECT_TRUE(run(o.m).empty());
}

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

TEST(MatmulParts, are_one_without_groups) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {6, 8, 256}, {1, 128}, {128, 128}, Format::e8m0, 1);
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].a.rows, 6);
  EXPECT_EQ(parts[0].b.rows, 8);
  EXPECT_EQ(parts[0].a.depth, 256);
  EXPECT_EQ(parts[0].d_first, 0);
}

// Rows 0..2, none, 3..5 of a; b's experts lie one after the other, with ceil(8 / 128) = 1 row of scales each.
TEST(MatmulParts, of_groups_along_rows_begin_where_the_experts_rows_and_scales_do) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {6, 8, 256, 3}, {2, 128}, {128, 128}, Format::e8m0, 2);
  o.offsets = {0, 3, 3, 6};
  o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 3U);
  const std::int64_t rows[] = {3, 0, 3}, first_row[] = {0, 3, 3}, scale_row[] = {0, 2, 2};
  for (std::size_t e = 0; e < 3; ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    EXPECT_EQ(parts[e].expert, expert);
    EXPECT_EQ(parts[e].a.rows, rows[e]);
    EXPECT_EQ(parts[e].a.first_row, first_row[e]);
    EXPECT_EQ(parts[e].a.scale_row, scale_row[e]);  // blocks of two rows restart: ceil(3 / 2) of the first expert
    EXPECT_EQ(parts[e].b.first_row, expert * 8);
    EXPECT_EQ(parts[e].b.scale_row, expert);
    EXPECT_EQ(parts[e].d_first, first_row[e] * 8);
  }
}

TEST(MatmulParts, of_gathered_rows_follow_the_index) {
  Owned o;
  fill(o, "sm90_fp8", {6, 8, 32, 2}, {0, 0}, {0, 0}, Format::e8m0, 3);
  o.index = {5, 0, 0, 2, 1};
  o.offsets = {0, 2, 5};
  o.m.gathers = true, o.m.row_index = o.index, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets;
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].a.rows, 3);
  for (std::int64_t k = 0; k < 32; ++k) {
    EXPECT_EQ(parts[0].a.code(0, k), o.a[static_cast<std::size_t>(5 * 32 + k)]);
    EXPECT_EQ(parts[1].a.code(1, k), o.a[static_cast<std::size_t>(2 * 32 + k)]);
  }
}

TEST(MatmulParts, of_groups_along_depth_are_whole_outputs_over_their_k) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {6, 8, 256}, {1, 128}, {1, 128}, Format::e8m0, 4);
  o.offsets = {0, 130, 256};
  o.m.grouping = Grouping::depth, o.m.offsets = o.offsets;
  const std::vector<MatmulPart> parts = parts_of(o.m);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].a.depth, 130);
  EXPECT_EQ(parts[1].b.depth, 126);
  EXPECT_EQ(parts[1].a.first_k, 130);
  EXPECT_EQ(parts[1].b.scale_depth, 2);  // ceil(130 / 128)
  EXPECT_EQ(parts[1].d_first, 6 * 8);
}

TEST(FinishedWord, is_alpha_times_the_sum_plus_c_rounded_to_the_output) {
  Matmul m;
  m.contract = parse_matmul_contract("sm90_fp8");
  const auto word = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  m.alpha = 0.5F;
  EXPECT_EQ(finished_word(m, word(3), word(1), true), word(2.5F));
  EXPECT_EQ(finished_word(m, word(3), word(1), false), word(1.5F));
  EXPECT_EQ(finished_word(m, word(kNaN), 0, false), 0x7FFFFFFFU);
  m.alpha = 1, m.output = Format::bf16;
  EXPECT_EQ(finished_word(m, 0x3F808000, 0, false), 0x3F80U);      // a tie, to even
  EXPECT_EQ(finished_word(m, 0x3F818000, 0x8000, true), 0x3F82U);  // c is BF16: -0
  EXPECT_EQ(finished_word(m, 0x7F7FFFFF, 0, false), 0x7F80U);      // beyond BF16: Inf
  EXPECT_EQ(finished_word(m, 0x7F800001, 0, false), 0x7FFFU);
  m.contract = parse_matmul_contract("sm90_fp8_fp16"), m.output = Format::fp32;
  EXPECT_EQ(finished_word(m, 0x3C00, 0, false), word(1));  // an accumulator of FP16
}

}  // namespace
}  // namespace mxcheck
