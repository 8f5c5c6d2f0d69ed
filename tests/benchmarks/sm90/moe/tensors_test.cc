#include "benchmarks/sm90/moe/tensors.h"

#include <gtest/gtest.h>

#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

using Names = std::vector<std::string>;

// T = 96, d = 256, n = 128, R = 192.
constexpr MoeShape kTensorShape{96, 256, 128, 4, 2};

TEST(MoeTensors, come_in_the_order_of_the_interface) {
  const MoeTensors t = moe_tensors(kTensorShape, layer_recipe_named("mxfp8"));
  const Names routes{"row_token", "row_weight", "token_offsets", "token_rows", "offsets"};
  Names forward{"x", "w1", "w2"};
  Names backward{"d_o", "w1", "w2", "h", "x"};
  forward.insert(forward.end(), routes.begin(), routes.end());
  backward.insert(backward.end(), routes.begin(), routes.end());
  EXPECT_EQ(moe_inputs(t, Direction::forward), forward);
  EXPECT_EQ(moe_inputs(t, Direction::backward), backward);
  EXPECT_EQ(moe_outputs(t, Direction::forward), (Names{"o", "h"}));
  EXPECT_EQ(moe_outputs(t, Direction::backward), (Names{"dx", "dw1", "dw2", "ds"}));
}

TEST(MoeTensors, have_two_for_what_is_kept_in_codes) {
  const MoeTensors t = moe_tensors(kTensorShape, layer_recipe_named("dsv3_pow2"));
  const Names kept{"h", "h scales", "x codes", "x scales"};
  Names outputs{"o"};
  outputs.insert(outputs.end(), kept.begin(), kept.end());
  EXPECT_EQ(moe_outputs(t, Direction::forward), outputs);
  const Names inputs = moe_inputs(t, Direction::backward);
  EXPECT_EQ(Names(inputs.begin() + 3, inputs.begin() + 7), kept);
  EXPECT_EQ(inputs.size(), 12U);  // the x that was given is not among them
  EXPECT_EQ(t.kept[0].shape, (std::vector<std::int64_t>{192, 384}));
  EXPECT_EQ(t.kept[1].shape, (std::vector<std::int64_t>{192, 2}));
}

TEST(MoeTensors, keep_what_docs_layer_says) {
  const double td = 96.0 * 256;
  const double rn = 192.0 * 128;
  const auto kept = [](const char* recipe) {
    return static_cast<double>(moe_tensors(kTensorShape, layer_recipe_named(recipe)).kept_bytes());
  };
  EXPECT_EQ(kept("bf16"), 2 * td + 4 * rn);
  EXPECT_EQ(kept("bf16"), static_cast<double>(sonic_moe_kept_bytes(kTensorShape)));
  EXPECT_EQ(kept("mxfp8"), 2 * td + 4 * rn);
  EXPECT_EQ(kept("dsv3"), td * (1 + 4.0 / 128) + 4 * rn);
  EXPECT_EQ(kept("dsv3_pow2"), td * (1 + 1.0 / 128) + 2 * rn * (1.5 + 1.0 / 128));
}

TEST(MoeTensors, count_the_bytes_of_a_call) {
  const MoeTensors t = moe_tensors(kTensorShape, layer_recipe_named("bf16"));
  const std::uint64_t routes = 192 * 4 + 192 * 4 + 97 * 8 + 192 * 4 + 5 * 8;
  const std::uint64_t weights = std::uint64_t{4} * 256 * 256 * 2 + std::uint64_t{4} * 128 * 256 * 2;
  const std::uint64_t tokens = std::uint64_t{96} * 256 * 2;
  const std::uint64_t h = std::uint64_t{192} * 256 * 2;
  EXPECT_EQ(moe_call_bytes(t, Direction::forward), tokens + weights + routes + tokens + h);
  EXPECT_EQ(moe_call_bytes(t, Direction::backward),
            tokens + weights + h + tokens + routes + tokens + 2 * weights + 192 * 4);
}

TEST(MoeTensors, refuse_a_recipe_that_the_interface_cannot_keep) {
  LayerRecipe recipe = layer_recipe_named("dsv3_pow2");
  recipe.kept_h.block = {1, 32};
  EXPECT_THROW(moe_tensors(kTensorShape, recipe), Error);
}

}  // namespace
}  // namespace mxcheck::bench
