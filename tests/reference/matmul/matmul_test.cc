// Products against a second way to compute each output: the plain model and IEEE operations, one output at a time.

#include "reference/matmul/matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

// A product with everything that it points to.
struct Owned {
  Matmul m;
  std::vector<std::uint8_t> a, b;
  std::vector<std::uint8_t> bytes_a, bytes_b;
  std::vector<float> floats_a, floats_b;
  std::vector<float> c;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> index;
};

struct Shape {
  std::int64_t m, n, k;
  std::int64_t matrices = 1;  // of b
};

void fill(Owned& o, std::string_view contract, Shape s, BlockShape block_a, BlockShape block_b, Format scale,
          unsigned seed) {
  std::mt19937 random(seed);
  const auto code = [&] {
    const double x = std::normal_distribution<double>()(random);
    return static_cast<std::uint8_t>(encode(Format::e4m3, x, Rounding::nearest_even, Overflow::saturate));
  };
  o.m.contract = parse_matmul_contract(contract);
  o.a.resize(static_cast<std::size_t>(s.m * s.k));
  o.b.resize(static_cast<std::size_t>(s.matrices * s.n * s.k));
  for (std::uint8_t& x : o.a) x = code();
  for (std::uint8_t& x : o.b) x = code();
  o.m.a.codes = o.a.data(), o.m.a.rows = s.m, o.m.a.depth = o.m.a.row_stride = s.k;
  o.m.b.codes = o.b.data(), o.m.b.rows = s.n, o.m.b.depth = o.m.b.row_stride = s.k;
  const auto scales = [&](MatmulOperand& x, BlockShape block, std::int64_t matrices, std::vector<std::uint8_t>& bytes,
                          std::vector<float>& floats) {
    if (block.rows == 0) return;
    x.block = block, x.scale_format = scale;
    const std::int64_t columns = (s.k + block.cols - 1) / block.cols + 3;  // room for groups that end inside a block
    const std::int64_t rows = matrices * ((x.rows + block.rows - 1) / block.rows);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(120 + random() % 15));
      floats.push_back(std::ldexp(1 + static_cast<float>(random() % 1024) / 1024, static_cast<int>(random() % 10) - 5));
    }
    x.scales = scale == Format::fp32 ? static_cast<const void*>(floats.data()) : bytes.data();
    x.scale_row_stride = columns;
  };
  scales(o.m.a, block_a, 1, o.bytes_a, o.floats_a);
  scales(o.m.b, block_b, s.matrices, o.bytes_b, o.floats_b);
}

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

std::vector<float> run(const Matmul& m) {
  const std::int64_t results = m.grouping == Grouping::depth ? m.experts() : 1;
  std::vector<float> d(static_cast<std::size_t>(results * m.m() * m.b.rows), -77);
  matmul(m, d.data());
  return d;
}

TEST(Matmul, promotes_every_128_with_both_kinds_of_scales) {
  for (const Format scale : {Format::e8m0, Format::fp32}) {
    for (const BlockShape block_b : {BlockShape{128, 128}, BlockShape{1, 128}}) {
      Owned o;
      fill(o, "sm90_fp8+promote128", {70, 300, 520}, {1, 128}, block_b, scale, 1);
      const std::vector<float> d = run(o.m);
      for (std::int64_t i = 0; i < 70; i += 3) {
        for (std::int64_t j = 0; j < 300; ++j) {
          ASSERT_EQ(d[static_cast<std::size_t>(i * 300 + j)], promoted(o.m, i, j, 0, 520, j / block_b.rows, 0))
              << i << " " << j;
        }
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
    for (std::int64_t j = 0; j < 33; ++j) {
      ASSERT_EQ(d[static_cast<std::size_t>(i * 33 + j)], promoted(o.m, i, e * 33 + j, 0, 256, e, 0)) << i << " " << j;
    }
  }
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
    for (std::int64_t j = 0; j < 40; ++j) {
      ASSERT_EQ(d[i * 40 + static_cast<std::size_t>(j)], promoted(o.m, o.index[i], j, 0, 256, 0, 0));
    }
  }
}

TEST(Matmul, alpha_then_c_then_the_outputs_type) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {5, 7, 128}, {1, 128}, {128, 128}, Format::fp32, 5);
  const std::vector<float> plain = run(o.m);
  std::mt19937 random(6);
  std::vector<std::uint16_t> c;
  for (int i = 0; i < 35; ++i) {
    c.push_back(static_cast<std::uint16_t>(
        encode(Format::bf16, std::normal_distribution<double>()(random), Rounding::nearest_even, Overflow::saturate)));
  }
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
        for (std::int64_t k = 0; k < 96; ++k) {
          sum += static_cast<long double>(decode(Format::e4m3, o.a[static_cast<std::size_t>(i * 96 + k)])) *
                 scale_of(o.m.a, i, k / 32) *
                 static_cast<long double>(decode(Format::e4m3, o.b[static_cast<std::size_t>(j * 96 + k)])) *
                 scale_of(o.m.b, j, k / 32);
        }
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

TEST(Matmul, an_explained_output_is_the_output) {
  for (const char* contract :
       {"sm90_fp8+promote128", "sm90_fp8+promote32+descending", "exact", "ieee_fp32", "sm90_bf16+decode"}) {
    Owned o;
    const std::int64_t block = std::string(contract).find("128") != std::string::npos ? 128 : 32;
    fill(o, contract, {6, 9, 200}, {1, block}, {1, block}, Format::e8m0, 12);
    o.c.assign(54, 0.25F), o.m.c = o.c.data();
    const std::vector<float> d = run(o.m);
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 9; ++j) {
        const ExplainedOutput e = explain_output(o.m, 0, i, j);
        EXPECT_EQ(e.word, std::bit_cast<std::uint32_t>(d[static_cast<std::size_t>(i * 9 + j)])) << contract;
        EXPECT_GE(e.lines.size(), 3U);
      }
    }
    EXPECT_THROW((void)explain_output(o.m, 0, 6, 0), Error);
    EXPECT_THROW((void)explain_output(o.m, 1, 0, 0), Error);
  }
}

TEST(Matmul, empty_products_are_defined) {
  Owned o;
  fill(o, "sm90_fp8+promote128", {3, 4, 0}, {1, 128}, {128, 128}, Format::e8m0, 13);
  for (float d : run(o.m)) EXPECT_EQ(std::bit_cast<std::uint32_t>(d), 0U);
  o.m.a.rows = 0;
  EXPECT_TRUE(run(o.m).empty());
}

TEST(Matmul, contracts_are_read_and_written) {
  for (const char* text : {"exact", "sm90_fp8+promote128", "sm90_fp8+promote64+a_first", "sm90_bf16+decode",
                           "sm90_bf16+from_c", "sm90_fp8+promote128+b_first+descending"}) {
    EXPECT_EQ(to_text(parse_matmul_contract(text)), text);
  }
  for (const char* text :
       {"", "sm90", "sm90_fp8+", "sm90_fp8+promote", "sm90_fp8+promote0", "sm90_fp8+promote33", "sm90_fp8+promote-1",
        "sm90_fp8+promotex", "exact+promote32", "sm90_fp8+a_first", "sm90_fp8+decode", "sm90_fp8+promote128+from_c",
        "sm100_mxf8f6f4+promote32", "exact+descending", "sm90_fp8+fast", "sm90_fp8_fp16+promote32"}) {
    EXPECT_THROW((void)parse_matmul_contract(text), Error) << text;
  }
}

TEST(Matmul, parts_that_do_not_fit_are_refused) {
  const auto refused = [](auto change) {
    Owned o;
    fill(o, "sm90_fp8+promote128", {6, 8, 256, 2}, {1, 128}, {128, 128}, Format::e8m0, 14);
    o.offsets = {0, 2, 6};
    change(o);
    std::vector<float> d(96, -77);
    EXPECT_THROW(matmul(o.m, d.data()), Error);
    for (float x : d) EXPECT_EQ(x, -77);
  };
  refused([](Owned& o) { o.m.contract = {}; });
  refused([](Owned& o) { o.m.b.depth = 128; });
  refused([](Owned& o) { o.m.a.rows = -1; });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_fp8+promote256"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm90_bf16"); });
  refused([](Owned& o) { o.m.contract = parse_matmul_contract("sm100_mxf8f6f4"); });
  refused([](Owned& o) { o.m.a.format = Format::bf16; });
  refused([](Owned& o) { o.m.a.scale_format = Format::bf16; });
  refused([](Owned& o) { o.m.a.block = {1, -128}; });
  refused([](Owned& o) { o.m.output = Format::e4m3; });
  refused([](Owned& o) { o.m.grouping = Grouping::rows; });
  refused([](Owned& o) { o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {0, 7, 6}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {1, 6}, o.m.grouping = Grouping::rows, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.offsets = {0, 128}, o.m.grouping = Grouping::depth, o.m.offsets = o.offsets; });
  refused([](Owned& o) { o.index = {0, 6}, o.m.gathers = true, o.m.row_index = o.index; });
  refused([](Owned& o) { o.m.contract.from_c = true; });
}

}  // namespace
}  // namespace mxcheck
