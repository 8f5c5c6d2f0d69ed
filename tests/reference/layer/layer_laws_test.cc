// Laws of any layer, whatever its bits: experts have no names, and the backward pass is linear in dO. Also,
// what a recipe makes of codes is made of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/layer/layer.h"
#include "tests/reference/layer/test_layer.h"

namespace mxcheck::test {
namespace {

// Matrix `place[e]` of the result is matrix e.
template <class T>
std::vector<T> moved(const std::vector<T>& v, const std::vector<std::int32_t>& place) {
  const std::size_t each = v.size() / place.size();
  std::vector<T> out(v.size());
  for (std::size_t e = 0; e < place.size(); ++e) {
    const auto from = v.begin() + static_cast<std::ptrdiff_t>(e * each);
    std::copy(from, from + static_cast<std::ptrdiff_t>(each),
              out.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(place[e]) * each));
  }
  return out;
}

TEST(LayerLaws, permuting_experts_with_their_weights_permutes_their_gradients_and_nothing_else) {
  const TestLayer t({40, 128, 128, 5}, 2, 71);
  const std::vector<std::int32_t> place{3, 0, 4, 1, 2};
  TestLayer other = t;
  other.w1 = moved(t.w1, place), other.w2 = moved(t.w2, place);
  for (std::int32_t& e : other.experts) e = e < 0 ? e : place[static_cast<std::size_t>(e)];
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    const LayerRun a = run(t, recipe);
    const LayerRun b = run(other, recipe);
    EXPECT_EQ(a.forward.o, b.forward.o) << recipe.name;
    EXPECT_EQ(a.backward.dx, b.backward.dx) << recipe.name;
    EXPECT_EQ(moved(a.backward.dw1, place), b.backward.dw1) << recipe.name;
    EXPECT_EQ(moved(a.backward.dw2, place), b.backward.dw2) << recipe.name;
  }
}

std::vector<float> scaled(std::vector<float> v, float by) {
  for (float& x : v) x *= by;
  return v;
}
Words scaled(Words v, float by) {
  for (std::uint16_t& x : v) x = layer_bf16(bf16_value(x) * by);
  return v;
}

// Powers of two move every scale and every accumulator's window with them. Not so in `broken`, whose amax is raised.
TEST(LayerLaws, scaling_do_by_a_power_of_two_scales_every_gradient) {
  const TestLayer t({40, 128, 128, 5}, 2, 72);
  for (const float by : {0x1p6F, 0x1p-5F}) {
    TestLayer other = t;
    other.d_o = scaled(t.d_o, by);
    for (const LayerRecipe& recipe : all_layer_recipes()) {
      const LayerBackward a = run(t, recipe).backward;
      const LayerBackward b = run(other, recipe).backward;
      const bool holds = recipe.name != "broken";
      EXPECT_EQ(scaled(a.dw1, by) == b.dw1, holds) << recipe.name;
      EXPECT_EQ(scaled(a.dx, by) == b.dx, holds) << recipe.name;
      if (!holds) continue;
      EXPECT_EQ(scaled(a.p, by), b.p) << recipe.name;
      EXPECT_EQ(scaled(a.ds, by), b.ds) << recipe.name;
      EXPECT_EQ(scaled(a.dh, by), b.dh) << recipe.name;
      EXPECT_EQ(scaled(a.dw2, by), b.dw2) << recipe.name;
      EXPECT_EQ(a.scaled_a, b.scaled_a) << recipe.name;
    }
  }
}

TEST(LayerLaws, what_is_requantized_is_made_of_the_codes_and_not_of_the_values) {
  const TestLayer t({40, 128, 128, 5}, 2, 73);
  const LayerRoutes routes = t.routes();
  for (const char* name : {"dsv3", "dsv3_pow2"}) {
    const LayerRun r = run(t, name);
    const OperandRule& rule = layer_recipe_named(name).gemm(LayerGemm::d_w1).a;
    ASSERT_EQ(rule.source, OperandSource::requantized) << name;
    const RoutedRows routed{routes.row_token, routes.offsets};
    const std::vector<float> decoded = values_of(r.forward.kept.x, routes.offsets, 1);
    const auto operand = [&](Format format, const std::byte* data) {
      return column_operand(rule, {{format, data, t.shape.tokens, t.shape.width, t.shape.width}, true}, routed, 1);
    };
    const LayerOperand of_codes = operand(Format::fp32, std::as_bytes(std::span(decoded)).data());
    const LayerOperand of_values = operand(Format::bf16, std::as_bytes(std::span(t.x)).data());
    EXPECT_EQ(values_in<std::uint8_t>(r.backward.d_w1_a.quantized.codes.data),
              values_in<std::uint8_t>(of_codes.quantized.codes.data))
        << name;
    EXPECT_NE(values_in<std::uint8_t>(of_codes.quantized.codes.data),
              values_in<std::uint8_t>(of_values.quantized.codes.data))
        << name;
  }
}

}  // namespace
}  // namespace mxcheck::test
