// Layers whose operands have two levels of scales: alpha after the sum, the rotation along tokens, and the words of
// stochastic rounding, each computed here a second time from docs/layer.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "reference/layer/layer.h"
#include "reference/matmul/matmul.h"
#include "tests/reference/layer/test_layer.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr LayerShape kNvfp4Shape{40, 48, 32, 3};
using Words = std::vector<std::uint16_t>;

// code * block scale of an operand in blocks of rows x cols, experts of `expert_rows` rows one after another.
Words values_of_blocks(const LayerOperand& x, BlockShape block, const std::vector<std::int64_t>& offsets) {
  const QuantizedTensor& q = x.quantized;
  Words words;
  std::int64_t scale_row = 0;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    for (std::int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
      const std::int64_t at = scale_row + (r - offsets[e]) / block.rows;
      for (std::int64_t c = 0; c < x.cols; ++c) {
        const double code = decode(Format::e2m1, q.codes.code(static_cast<std::size_t>(r * x.cols + c)));
        const std::uint32_t byte = q.scales().code(static_cast<std::size_t>(at * q.scale_cols() + c / block.cols));
        const auto value = static_cast<float>(code * decode(Format::e4m3, byte));
        EXPECT_EQ(std::bit_cast<std::uint32_t>(value) & 0xFFFF, 0U);  // BF16 holds it
        words.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
      }
    }
    scale_row += (offsets[e + 1] - offsets[e] + block.rows - 1) / block.rows;
  }
  return words;
}

float amax_of(const Words& w) {
  float amax = 0;
  for (const std::uint16_t x : w) amax = std::max(amax, std::fabs(bf16_value(x)));
  return amax;
}

std::vector<std::int64_t> equal_parts(std::int64_t rows, std::int64_t parts) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t e = 0; e <= parts; ++e) offsets.push_back(rows / parts * e);
  return offsets;
}

TEST(TwoLevelLayer, multiplies_by_alpha_after_the_sum) {
  const TestLayer t(kNvfp4Shape, 2, 21);
  const LayerRoutes routes = t.routes();
  for (const char* name : {"nvfp4", "nvfp4_46"}) {
    const LayerRun r = run(t, layer_recipe_named(name));
    const float unit = std::string(name) == "nvfp4_46" ? 1536.0F : 2688.0F;
    const float alpha = amax_of(t.x) / unit * (amax_of(t.w1) / unit);
    const Words a = values_of_blocks(r.forward.up_a, {1, 16}, {0, kNvfp4Shape.tokens});
    const Words b = values_of_blocks(r.forward.up_b, {16, 16},
                                     equal_parts(kNvfp4Shape.experts * 2 * kNvfp4Shape.inner, kNvfp4Shape.experts));
    Matmul m;
    m.contract = parse_matmul_contract("sm90_bf16");
    m.a = {Format::bf16, a.data(), kNvfp4Shape.tokens, kNvfp4Shape.width, kNvfp4Shape.width};
    m.b = {Format::bf16, b.data(), 2 * kNvfp4Shape.inner, kNvfp4Shape.width, kNvfp4Shape.width};
    m.grouping = Grouping::rows, m.gathers = true;
    m.row_index = routes.row_token, m.offsets = routes.offsets;
    std::vector<float> sums(r.forward.h.size());
    matmul(m, sums.data());
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(r.forward.h[i], layer_bf16(alpha * sums[i])) << name << i;
  }
}

TEST(TwoLevelLayer, rotates_whole_groups_of_an_expert_s_tokens_alike_on_both_sides) {
  const TestLayer t(kNvfp4Shape, 2, 22);
  const LayerRoutes routes = t.routes();
  const LayerRun r = run(t, layer_recipe_named("nvfp4"));
  const LayerOperand& x = r.backward.d_w1_a;
  ASSERT_EQ(x.rotated.size(), routes.row_token.size() * static_cast<std::size_t>(kNvfp4Shape.width));
  bool any_tail = false;
  for (std::size_t e = 0; e + 1 < routes.offsets.size(); ++e) {
    for (std::int64_t row = routes.offsets[e]; row < routes.offsets[e + 1]; ++row) {
      const std::int64_t in_expert = row - routes.offsets[e];
      const std::int64_t first = routes.offsets[e] + in_expert / 16 * 16;
      const bool whole = first + 16 <= routes.offsets[e + 1];
      any_tail |= !whole;
      for (std::int64_t c = 0; c < kNvfp4Shape.width; ++c) {
        const auto value = [&](std::int64_t of) {
          const std::int64_t token = routes.row_token[static_cast<std::size_t>(of)];
          return double{bf16_value(t.x[static_cast<std::size_t>(token * kNvfp4Shape.width + c)])};
        };
        double exact = whole ? 0 : value(row);
        for (std::int64_t i = 0; whole && i < 16; ++i) {
          const bool minus = (std::popcount(static_cast<unsigned>(i & in_expert % 16)) + (0xD7E8 >> i & 1)) % 2 != 0;
          exact += (minus ? -0.25 : 0.25) * value(first + i);
        }
        const float found = bf16_value(x.rotated[static_cast<std::size_t>(row * kNvfp4Shape.width + c)]);
        ASSERT_NEAR(found, exact, std::fabs(exact) * 0x1p-8 + 0x1p-20) << row << " " << c;  // RN to BF16, and FP32 sums
        if (!whole) {
          ASSERT_EQ(found, exact);
        }
      }
    }
  }
  EXPECT_TRUE(any_tail);
  const LayerRun bf16 = run(t, layer_recipe_named("bf16"));
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < bf16.backward.dw1.size(); ++i) {
    difference += std::pow(double{r.backward.dw1[i]} - double{bf16.backward.dw1[i]}, 2);
    size += std::pow(double{bf16.backward.dw1[i]}, 2);
  }
  EXPECT_LT(std::sqrt(difference / size), 0.5);  // rotated on one side alone it would be about 1.4
}

TEST(TwoLevelLayer, rounds_gradients_by_the_words_of_seed_step_layer_and_operand) {
  const TestLayer t(kNvfp4Shape, 2, 23);
  const LayerRecipe& recipe = layer_recipe_named("nvfp4_backward");
  const LayerRoutes routes = t.routes();
  Layer layer = t.layer(recipe);
  layer.random = {0xFEDCBA9876543210U, 91, 6};
  const LayerForward f = layer_forward(layer, t.x, routes);
  const LayerBackward b = layer_backward(layer, f.kept, t.d_o, routes);
  Recipe te = any_recipe_named("nvfp4_te");
  te.rounding = Rounding::stochastic;
  const auto words_of_operand = [&](std::uint32_t operand, std::size_t count) {
    std::vector<std::uint32_t> words;
    for (std::uint32_t i = 0; i < count; ++i)
      words.push_back(philox_word(layer.random.seed, i, 0, 0x80000000U | 6U << 8 | operand, 91));
    return words;
  };
  const auto codes_of = [&](const Words& x, std::int64_t cols, std::uint32_t operand) {
    const MatrixView view{Format::bf16, std::as_bytes(std::span(x)).data(), std::ssize(x) / cols, cols, cols};
    const std::vector<std::uint32_t> words = words_of_operand(operand, x.size());
    return quantize(view, Format::e2m1, {1, 16}, te, QuantizeExtras{.words = words}).codes.data;
  };
  EXPECT_EQ(b.d_down_a.quantized.codes.data, codes_of(t.d_o, kNvfp4Shape.width, 4));
  EXPECT_EQ(b.d_up_a.quantized.codes.data, codes_of(b.dh, 2 * kNvfp4Shape.inner, 6));
  const auto differs = [&](const LayerRandom& random) {
    layer.random = random;
    return layer_backward(layer, f.kept, t.d_o, routes).dx != b.dx;
  };
  EXPECT_TRUE(differs({0xFEDCBA9876543211U, 91, 6}));
  EXPECT_TRUE(differs({0xFEDCBA9876543210U, 92, 6}));
  EXPECT_TRUE(differs({0xFEDCBA9876543210U, 91, 7}));
  EXPECT_FALSE(differs({0xFEDCBA9876543210U, 91, 6}));
}

// Over many seeds the mean of the values is that of the tensor, within 5 standard errors of the sum of all elements
// that do not saturate.
TEST(TwoLevelLayer, stochastic_gradients_have_no_bias) {
  const TestLayer t({24, 32, 16, 2}, 1, 24);
  const LayerRecipe& recipe = layer_recipe_named("nvfp4_backward");
  const LayerRoutes routes = t.routes();
  Layer layer = t.layer(recipe);
  const LayerForward f = layer_forward(layer, t.x, routes);
  constexpr int kRuns = 400;
  std::vector<double> sum, squares, largest;
  for (int i = 0; i < kRuns; ++i) {
    layer.random.seed = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U;
    const LayerOperand x = layer_backward(layer, f.kept, t.d_o, routes).d_down_a;
    const std::vector<float> values = values_of(x, routes.offsets, 1);
    sum.resize(values.size()), squares.resize(values.size());
    for (std::size_t j = 0; j < values.size(); ++j) sum[j] += values[j], squares[j] += double{values[j]} * values[j];
    const float outer = std::bit_cast<float>(x.quantized.levels[1].scales.code(0)) / 2688;
    for (std::size_t j = 0; i == 0 && j < values.size(); ++j) largest.push_back(6 * x.quantized.scale(j / 16) * outer);
  }
  double bias = 0, variance = 0;
  for (std::size_t j = 0; j < sum.size(); ++j) {
    const double right{bf16_value(t.d_o[j])};
    if (std::fabs(right) > largest[j]) continue;
    const double mean = sum[j] / kRuns;
    bias += mean - right;
    variance += (squares[j] / kRuns - mean * mean) / kRuns;
  }
  EXPECT_LE(std::fabs(bias), 5 * std::sqrt(variance));
}

}  // namespace
}  // namespace mxcheck
