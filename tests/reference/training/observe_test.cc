// Facts about quantized operands, against a count over dequantized tensors of a layer whose inputs reach both ends of
// E4M3.

#include "reference/training/observe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "reference/layer/run.h"
#include "reference/router/router.h"
#include "tests/reference/training/test_training.h"

namespace mxcheck {
namespace {

std::vector<std::uint16_t> wide_values(std::size_t count, int seed) {
  std::vector<std::uint16_t> words;
  for (std::size_t i = 0; i < count; ++i) {
    const auto r = philox_word(static_cast<std::uint64_t>(seed), static_cast<std::uint32_t>(i), 0, 0, 0);
    const int exponent = static_cast<int>(r % 28) - 20;
    const float value = std::ldexp(1.0F + static_cast<float>(r >> 25) / 128.0F, exponent);
    const auto word = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    words.push_back(r & (1U << 20) ? static_cast<std::uint16_t>(word | 0x8000U) : word);
  }
  return words;
}

LayerRoutes two_of_three_experts() {
  Routes choice{40, 2, {}, std::vector<float>(80, 0.5F)};
  for (std::int32_t t = 0; t < 40; ++t) choice.experts.push_back(t % 3), choice.experts.push_back((t + 1 + t % 2) % 3);
  return layer_routes(choice, 3);
}

struct Inputs {
  std::vector<std::uint16_t> x = wide_values(40 * 64, 1);
  std::vector<std::uint16_t> d_o = wide_values(40 * 64, 2);
  std::vector<std::uint16_t> w1 = wide_values(3 * 64 * 128, 3);
  std::vector<std::uint16_t> w2 = wide_values(3 * 64 * 64, 4);
  LayerRoutes routes = two_of_three_experts();

  [[nodiscard]] Layer layer(const std::string& recipe) const {
    return {{40, 64, 64, 3}, &layer_recipe_named(recipe), GateUp::halves, w1, w2, 1};
  }
};

struct Computed {
  LayerForward f;
  LayerBackward b;
  std::map<std::string, OperandFacts> facts;
};

std::vector<OperandFacts> facts_of(const Inputs& in, const std::string& recipe, Computed* computed = nullptr) {
  const Layer layer = in.layer(recipe);
  Computed c;
  c.f = layer_forward(layer, in.x, in.routes);
  c.b = layer_backward(layer, c.f.kept, in.d_o, in.routes);
  std::vector<OperandFacts> facts;
  forward_facts(layer, in.x, in.routes, c.f, facts);
  backward_facts(layer, in.x, in.d_o, in.routes, c.b, facts);
  if (computed != nullptr) *computed = std::move(c);
  return facts;
}

Computed compute(const std::string& recipe) {
  Computed c;
  const std::vector<OperandFacts> facts = facts_of(Inputs(), recipe, &c);
  for (const OperandFacts& f : facts) EXPECT_TRUE(c.facts.emplace(f.name, f).second) << f.name;
  return c;
}

TEST(OperandFacts, there_is_one_entry_for_each_quantized_operand) {
  EXPECT_TRUE(compute("bf16").facts.empty());
  EXPECT_EQ(compute("mxfp8").facts.size(), 12U);
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    std::size_t quantized = 0;
    for (const GemmRule& gemm : recipe.gemms) quantized += gemm.a.quantized() + std::size_t{gemm.b.quantized()};
    EXPECT_EQ(compute(recipe.name).facts.size(), quantized) << recipe.name;
  }
}

// A's rows are known in BF16 from the pass itself, so that flushed and saturated elements can be counted by value: what
// is 0 after dequantization and was not before; what is above the largest number times the scale, which only a scale
// rule that rounds the scale down allows.
TEST(OperandFacts, counts_of_the_activations_are_those_of_the_dequantized_tensor) {
  for (const char* name : {"mxfp8", "mxfp8_floor", "dsv3", "dsv3_pow2", "fp8_tensor"}) {
    const Computed c = compute(name);
    const OperandFacts& f = c.facts.at("down.a");
    const std::vector<float> back = dequantize(c.f.down_a.quantized);
    std::int64_t flushed = 0, saturated = 0;
    for (std::size_t i = 0; i < back.size(); ++i) {
      flushed += back[i] == 0 && fp32_of(c.f.a[i]) != 0;
      const bool is_largest = (c.f.down_a.quantized.codes[i] & 0x7F) == 0x7E;  // of E4M3
      saturated += is_largest && std::abs(fp32_of(c.f.a[i])) > std::abs(back[i]);
    }
    EXPECT_EQ(f.saturated, saturated) << name;
    EXPECT_EQ(f.elements, std::ssize(back)) << name;
    EXPECT_EQ(f.flushed, flushed) << name;
    EXPECT_GT(f.flushed, 0) << name;
    EXPECT_LE(f.least_exponent, f.largest_exponent) << name;
    const Quantized& q = c.f.down_a.quantized;
    EXPECT_EQ(f.scales, std::ssize(q.scales) + std::ssize(q.scales_fp32)) << name;
  }
  EXPECT_EQ(compute("mxfp8").facts.at("down.a").saturated, 0);  // rceil never cuts the largest element
  EXPECT_GT(compute("mxfp8_floor").facts.at("down.a").saturated, 0);
}

// dO is gathered for d_w2 and quantized along tokens: each element is counted once a route, against its token's value.
TEST(OperandFacts, gathered_operands_are_compared_with_their_tokens) {
  const Computed c = compute("mxfp8");
  const std::vector<std::uint16_t> d_o = wide_values(40 * 64, 2);
  const OperandFacts& f = c.facts.at("d_w2.b");
  EXPECT_EQ(f.elements, 80 * 64);
  std::vector<std::int32_t> tokens;
  for (std::int32_t e = 0; e < 3; ++e) {
    for (std::int32_t t = 0; t < 40; ++t) {
      if (t % 3 == e || (t + 1 + t % 2) % 3 == e) tokens.push_back(t);
    }
  }
  ASSERT_EQ(tokens.size(), 80U);
  std::vector<std::int64_t> offsets{0};
  for (std::int32_t e = 0; e < 3; ++e) {
    std::int64_t rows = 0;
    for (std::int32_t t = 0; t < 40; ++t) rows += t % 3 == e || (t + 1 + t % 2) % 3 == e;
    offsets.push_back(offsets.back() + rows);
  }
  const std::vector<float> back = dequantize(c.b.d_w2_b.quantized, offsets);
  std::int64_t flushed = 0;
  for (std::size_t i = 0; i < back.size(); ++i)
    flushed += back[i] == 0 && fp32_of(d_o[static_cast<std::size_t>(tokens[i / 64]) * 64 + i % 64]) != 0;
  EXPECT_EQ(f.flushed, flushed);
  EXPECT_GT(flushed, 0);
}

// The products that a layer computed are enough to make its observation again, under every recipe.
TEST(ObserveLayer, makes_the_facts_again_from_two_products) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const Inputs in;
    const Layer layer = in.layer(recipe.name);
    const LayerForward f = layer_forward(layer, in.x, in.routes);
    const LayerBackward b = layer_backward(layer, f.kept, in.d_o, in.routes);
    const LayerObservation observed = observe_layer(layer, in.x, in.d_o, in.routes, {f.h, b.p});
    EXPECT_EQ(observed.operands, facts_of(in, recipe.name)) << recipe.name;
    EXPECT_EQ(observed.expert_loads, expert_loads(in.routes));
    EXPECT_EQ(std::accumulate(observed.expert_loads.begin(), observed.expert_loads.end(), std::int64_t{0}), 80);
    std::vector<std::uint16_t> other = f.h;
    for (std::uint16_t& word : other) word ^= 0x0800U;
    if (!recipe.gemm(LayerGemm::down).a.quantized()) continue;
    EXPECT_NE(observe_layer(layer, in.x, in.d_o, in.routes, {other, b.p}).operands, observed.operands) << recipe.name;
  }
}

TEST(ObserveLayer, products_of_another_size_are_refused) {
  const Inputs in;
  const Layer layer = in.layer("mxfp8");
  const std::vector<std::uint16_t> h(80 * 128);
  const std::vector<float> p(80 * 64);
  EXPECT_NO_THROW(observe_layer(layer, in.x, in.d_o, in.routes, {h, p}));
  EXPECT_THROW(observe_layer(layer, in.x, in.d_o, in.routes, {std::span(h).first(h.size() - 1), p}), Error);
  EXPECT_THROW(observe_layer(layer, in.x, in.d_o, in.routes, {h, std::span(p).first(p.size() - 1)}), Error);
}

}  // namespace
}  // namespace mxcheck
