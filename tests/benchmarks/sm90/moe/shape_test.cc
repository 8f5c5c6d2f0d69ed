#include "benchmarks/sm90/moe/shape.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

std::string refusal_of(const char* text) {
  try {
    parse_moe_shape(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(MoeShape, reads_five_numbers) {
  const MoeShape right{32768, 4096, 1024, 128, 8};
  EXPECT_EQ(parse_moe_shape("32768,4096,1024,128,8"), right);
  EXPECT_EQ(right.text(), "T=32768 d=4096 n=1024 E=128 K=8");
  EXPECT_EQ(right.rows(), 262144);
}

TEST(MoeShape, refuses_what_is_no_shape) {
  for (const char* text : {"", "1", "1,2,3,4", "1,2,3,4,", "1,2,3,4,x", "1;2,3,4,4", "1,2,3,4,4,5", "1,2,3,4,4 "}) {
    EXPECT_NE(refusal_of(text), "") << text;
  }
  EXPECT_NE(refusal_of("0,2,3,4,4").find("0 is not in 1 to 1048576"), std::string::npos);
  EXPECT_NE(refusal_of("1,2,3,4,5").find("K is above E"), std::string::npos);
}

TEST(MoeShape, counts_the_operations_of_two_gemms_and_of_their_gradients) {
  const MoeShape s = parse_moe_shape("10,7,5,4,3");
  const double up = 2.0 * 30 * 7 * (2 * 5);
  const double down = 2.0 * 30 * 5 * 7;
  EXPECT_EQ(s.operations(Direction::forward), up + down);
  EXPECT_EQ(s.operations(Direction::backward), 2 * (up + down));
  // 6300 operations in 2 microseconds.
  EXPECT_DOUBLE_EQ(s.tflops(Direction::forward, 2), 0.00315);
}

TEST(SonicMoe, has_a_rate_for_each_shape_that_is_measured_by_default) {
  for (const MoeShape& s : default_moe_shapes()) {
    const SonicMoeRate* const rate = find_sonic_moe_rate(s);
    ASSERT_NE(rate, nullptr) << s.text();
    EXPECT_GT(rate->forward, 0);
    EXPECT_GT(rate->backward, 0);
  }
  EXPECT_EQ(find_sonic_moe_rate(parse_moe_shape("32768,4096,1024,128,4")), nullptr);
}

TEST(SonicMoe, keeps_x_and_h) {
  // X of 10 x 7 and H of 30 x 10, both in BF16.
  EXPECT_EQ(sonic_moe_kept_bytes(parse_moe_shape("10,7,5,4,3")), 2U * 70 + 2U * 300);
}

}  // namespace

// --- routes

namespace {

constexpr MoeShape kRoutedShape{600, 64, 64, 16, 4};

TEST(MoeRoutes, are_routes_of_every_token_without_a_dropped_one) {
  for (const auto& load : kRouteLoads) {
    const LayerRoutes r = draw_moe_routes(kRoutedShape, load.value, 3);
    check(r, kRoutedShape.tokens, kRoutedShape.experts);
    EXPECT_EQ(r.offsets.back(), kRoutedShape.rows());
    EXPECT_EQ(std::ranges::count(r.token_rows, -1), 0);
  }
}

TEST(MoeRoutes, have_an_experts_tokens_in_ascending_order) {
  const LayerRoutes r = draw_moe_routes(kRoutedShape, RouteLoad::skewed, 3);
  for (std::size_t e = 0; e + 1 < r.offsets.size(); ++e) {
    EXPECT_TRUE(std::is_sorted(r.row_token.begin() + r.offsets[e], r.row_token.begin() + r.offsets[e + 1])) << e;
  }
}

TEST(MoeRoutes, load_experts_as_asked) {
  const double uniform = busiest_expert(draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3));
  const double skewed = busiest_expert(draw_moe_routes(kRoutedShape, RouteLoad::skewed, 3));
  EXPECT_GE(uniform, 1);
  EXPECT_LT(uniform, 1.3);
  EXPECT_GT(skewed, 1.5);
}

TEST(MoeRoutes, depend_on_the_seed_alone) {
  const LayerRoutes first = draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3);
  EXPECT_EQ(first.row_token, draw_moe_routes(kRoutedShape, RouteLoad::uniform, 3).row_token);
  EXPECT_NE(first.row_token, draw_moe_routes(kRoutedShape, RouteLoad::uniform, 4).row_token);
}

}  // namespace

// --- tensors

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
