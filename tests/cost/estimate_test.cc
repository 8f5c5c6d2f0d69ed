#include "cost/estimate.h"

#include <string>

#include "tests/cost/cost_testing.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::has_step;
using test::round_card;
using test::step_of;

constexpr LayerShape kSmall{256, 128, 64, 2, 1};  // 256 rows, 128 of each expert: a tile

Estimate small(const std::string& recipe, Architecture architecture = Architecture::hopper) {
  static const Card hopper = round_card(Architecture::hopper);
  static const Card blackwell = round_card(Architecture::blackwell);
  return estimate(kSmall, layer_recipe_named(recipe), architecture == Architecture::hopper ? hopper : blackwell,
                  test::kBalanced);
}

// T = R = 256, d = 128, n = 64, E = 2, by hand.
TEST(Estimate, bytes_and_operations_of_each_step_in_bf16) {
  const Estimate e = small("bf16");
  const auto bytes = [&](const Pass& pass, const char* step) { return step_of(pass, step).bytes; };
  EXPECT_EQ(bytes(e.forward, "gather X"), (256 + 256) * 128 * 2);
  EXPECT_EQ(bytes(e.forward, "up"), 256 * 128 * 2 + 2 * 128 * 128 * 2 + 256 * 128 * 2);
  EXPECT_EQ(bytes(e.forward, "swiglu"), 256 * 64 * (4 + 2));
  EXPECT_EQ(bytes(e.forward, "down"), 256 * 64 * 2 + 2 * 64 * 128 * 2 + 256 * 128 * 2);
  EXPECT_EQ(bytes(e.forward, "aggregate"), 256 * 128 * 2 + 256 * 128 * 2);
  EXPECT_EQ(bytes(e.backward, "d_down"), 256 * 128 * 2 + 2 * 64 * 128 * 2 + 256 * 64 * 4);  // P in FP32
  EXPECT_EQ(bytes(e.backward, "swiglu_backward"), 256 * 64 * (4 + 4 + 2 + 4));
  EXPECT_EQ(bytes(e.backward, "d_w2"), 256 * (64 + 128) * 2 + 2 * 64 * 128 * 4);
  EXPECT_EQ(bytes(e.backward, "d_up"), 256 * 128 * 2 + 2 * 128 * 128 * 2 + 256 * 128 * 2);
  EXPECT_EQ(bytes(e.backward, "d_w1"), 256 * (128 + 128) * 2 + 2 * 128 * 128 * 4);
  EXPECT_EQ(bytes(e.backward, "gather X for d_w1"), (256 + 256) * 128 * 2);
  EXPECT_EQ(step_of(e.forward, "up").operations, 2.0 * 256 * 128 * 128);
  EXPECT_EQ(step_of(e.forward, "down").operations, 2.0 * 256 * 64 * 128);
  EXPECT_EQ(step_of(e.backward, "d_w1").operations, 2.0 * 256 * 128 * 128);
  EXPECT_EQ(e.useful_forward, 6.0 * 256 * 64 * 128);
  EXPECT_EQ(e.useful_backward, 12.0 * 256 * 64 * 128);
  EXPECT_FALSE(has_step(e.forward, "quantize X"));
}

TEST(Estimate, a_step_takes_the_longer_of_operations_and_bytes_and_a_launch) {
  Card card = round_card(Architecture::hopper);
  card.launch.value = 3;
  const Estimate e = estimate(kSmall, layer_recipe_named("bf16"), card, test::kBalanced);
  const Step& up = step_of(e.forward, "up");
  EXPECT_DOUBLE_EQ(up.compute_us, 8.388608e6 / 1000e12 * 1e6);
  EXPECT_DOUBLE_EQ(up.memory_us, 196608 / 1000e9 * 1e6);
  EXPECT_DOUBLE_EQ(up.us, 0.196608 + 3);
  card.engines[0].peak.value = 10;  // TFLOPS
  EXPECT_DOUBLE_EQ(step_of(estimate(kSmall, layer_recipe_named("bf16"), card, test::kBalanced).forward, "up").us,
                   0.8388608 + 3);
  EXPECT_DOUBLE_EQ(e.us(), e.forward.us() + e.backward.us());
  EXPECT_DOUBLE_EQ(e.forward.us_of(StepKind::gemm) + e.forward.us_of(StepKind::move), e.forward.us());
}

TEST(Estimate, padding_is_in_operations_and_not_in_bytes) {
  const Card card = round_card(Architecture::hopper);
  const EstimateOptions ragged{.load = {LoadKind::counts, 0, {129, 127}}};
  const Estimate e = estimate(kSmall, layer_recipe_named("bf16"), card, ragged);
  EXPECT_EQ(step_of(e.forward, "up").operations, 2.0 * (256 + 128) * 128 * 128);
  EXPECT_EQ(step_of(e.backward, "d_w1").operations, 2.0 * (192 + 128) * 128 * 128);  // in steps of 64 tokens
  EXPECT_EQ(step_of(e.forward, "up").bytes, step_of(small("bf16").forward, "up").bytes);
  EXPECT_EQ(e.useful_forward, small("bf16").useful_forward);
}

TEST(Estimate, an_expert_without_rows_is_not_read_and_its_gradient_is_written) {
  const EstimateOptions one{.load = {LoadKind::counts, 0, {256, 0}}};
  const Estimate e = estimate(kSmall, layer_recipe_named("bf16"), round_card(Architecture::hopper), one);
  EXPECT_EQ(step_of(e.forward, "up").bytes, 256 * 128 * 2 + 1 * 128 * 128 * 2 + 256 * 128 * 2);
  EXPECT_EQ(step_of(e.backward, "d_w1").bytes, 256 * (128 + 128) * 2 + 2 * 128 * 128 * 4);
}

// Hopper multiplies MXFP8's values, which software writes as BF16; Blackwell its codes, of 1 + 1/32 bytes.
TEST(Estimate, mxfp8_is_values_on_hopper_and_codes_on_blackwell) {
  const Estimate hopper = small("mxfp8");
  EXPECT_EQ(step_of(hopper.forward, "quantize X").bytes, 256 * 128 * 4);
  EXPECT_EQ(step_of(hopper.forward, "up").engine, Engine::values);
  EXPECT_EQ(step_of(hopper.forward, "up").bytes, step_of(small("bf16").forward, "up").bytes);
  const Estimate blackwell = small("mxfp8", Architecture::blackwell);
  EXPECT_EQ(step_of(blackwell.forward, "up").engine, Engine::mx);
  EXPECT_EQ(step_of(blackwell.forward, "quantize X").bytes, 256 * 128 * (2 + 1 + 1.0 / 32));
  EXPECT_EQ(step_of(blackwell.forward, "quantize W1").bytes, 2 * 128 * 128 * (2 + 1 + 1.0 / 32));
  EXPECT_EQ(step_of(blackwell.forward, "gather X").bytes, (256 + 256) * 128 * (1 + 1.0 / 32));
  EXPECT_EQ(step_of(blackwell.forward, "up").bytes, (256 * 128 + 2 * 128 * 128) * (1 + 1.0 / 32) + 256 * 128 * 2);
  EXPECT_EQ(step_of(blackwell.backward, "quantize X along tokens").bytes, 256 * 128 * (2 + 1 + 1.0 / 32));
  EXPECT_FALSE(has_step(blackwell.backward, "gather X for d_w1"));
}

TEST(Estimate, a_scale_of_the_tensor_and_a_rotation_take_passes_more) {
  EXPECT_EQ(step_of(small("fp8_tensor").forward, "quantize X").bytes, 256 * 128 * (2 + 2 + 1));
  EXPECT_EQ(step_of(small("nvfp4").forward, "quantize X").bytes, 256 * 128 * (2 + 2 + 2));  // values
  EXPECT_EQ(step_of(small("nvfp4").backward, "quantize X along tokens").bytes, 256 * 128 * (2 + 2 + 2));
  EXPECT_EQ(step_of(small("quartet2").backward, "quantize X along tokens").bytes, 256 * 128 * (2 + 2 + 2 + 2));
  EXPECT_EQ(step_of(small("nvfp4", Architecture::blackwell).forward, "quantize X").bytes,
            256 * 128 * (2 + 2 + 0.5 + 1.0 / 16));
}

TEST(Estimate, h_is_written_and_read_as_it_is_kept) {
  const double h = 256 * 2 * 64 * (12.0 / 8 + 1.0 / 128);  // E5M6 under a byte for 128
  EXPECT_EQ(step_of(small("dsv3_pow2").forward, "swiglu").bytes, 256 * 64 * 6 + h);
  EXPECT_EQ(step_of(small("dsv3_pow2").backward, "swiglu_backward").bytes, 256 * 64 * 10 + h);
  EXPECT_EQ(small("dsv3_pow2").kept.h, h);
  EXPECT_EQ(small("dsv3_pow2").kept.x, 256 * 128 * (1 + 1.0 / 128));
}

TEST(Estimate, weights_are_quantized_once_for_the_microbatches) {
  EstimateOptions options = test::kBalanced;
  options.microbatches = 4;
  const Card card = round_card(Architecture::hopper);
  const Estimate e = estimate(kSmall, layer_recipe_named("dsv3"), card, options);
  const Estimate each = small("dsv3");
  EXPECT_DOUBLE_EQ(step_of(e.forward, "quantize W1").bytes, step_of(each.forward, "quantize W1").bytes / 4);
  EXPECT_EQ(step_of(e.forward, "quantize X").bytes, step_of(each.forward, "quantize X").bytes);
}

// Scales of blocks of 128 along k: two operations for 256, on 10 TFLOPS of CUDA cores.
TEST(Estimate, scales_in_software_are_hidden_on_hopper_and_added_on_blackwell) {
  const double us = 2.0 * 256 * 128 * 128 / 128 / 10e12 * 1e6;
  const Step hopper = step_of(small("dsv3").forward, "up");
  EXPECT_DOUBLE_EQ(hopper.dequantize_us, us);
  EXPECT_TRUE(hopper.hidden);
  EXPECT_DOUBLE_EQ(hopper.us, hopper.memory_us);
  const Step blackwell = step_of(small("dsv3", Architecture::blackwell).forward, "up");
  EXPECT_DOUBLE_EQ(blackwell.us, blackwell.memory_us + us);
  EXPECT_EQ(step_of(small("dsv3_pow2", Architecture::blackwell).forward, "up").dequantize_us,
            0);  // the tensor cores do
}

TEST(Engine, is_chosen_by_contract_on_hopper_and_by_formats_on_blackwell) {
  const auto engine = [](const char* recipe, LayerGemm gemm, const char* card) {
    return engine_of(card_named(card), layer_recipe_named(recipe).gemm(gemm));
  };
  EXPECT_EQ(engine("bf16", LayerGemm::up, "H200"), Engine::bf16);
  EXPECT_EQ(engine("mxfp8", LayerGemm::up, "H100"), Engine::values);
  EXPECT_EQ(engine("nvfp4", LayerGemm::d_w1, "H200"), Engine::values);
  EXPECT_EQ(engine("dsv3", LayerGemm::up, "H200"), Engine::fp8);
  EXPECT_EQ(engine("dsv3", LayerGemm::d_w1, "H200"), Engine::fp8_lines);
  EXPECT_EQ(engine("dsv3_128x128_grad", LayerGemm::d_w1, "H200"), Engine::fp8);
  EXPECT_EQ(engine("fp8_tensor", LayerGemm::up, "H200"), Engine::fp8_tensor);
  EXPECT_EQ(engine("bf16", LayerGemm::up, "B200"), Engine::bf16);
  EXPECT_EQ(engine("mxfp8", LayerGemm::up, "B200"), Engine::mx);
  EXPECT_EQ(engine("dsv3_pow2", LayerGemm::up, "B200"), Engine::mx);
  EXPECT_EQ(engine("dsv3", LayerGemm::up, "B200"), Engine::fp8);
  EXPECT_EQ(engine("dsv3", LayerGemm::d_w1, "B200"), Engine::fp8_lines);
  EXPECT_EQ(engine("fp8_tensor", LayerGemm::up, "B200"), Engine::fp8_tensor);
  EXPECT_EQ(engine("nvfp4", LayerGemm::up, "B200"), Engine::nvfp4);
  EXPECT_EQ(engine("quartet2", LayerGemm::d_up, "B200"), Engine::nvfp4);
  EXPECT_EQ(engine("broken", LayerGemm::d_down, "B200"), Engine::mx);  // E2M1 by E4M3
  GemmRule sm100 = layer_recipe_named("mxfp8").gemm(LayerGemm::up);
  sm100.contract = "sm100_mxf8f6f4";
  expect_error(ErrorKind::usage, "contract sm100_mxf8f6f4 is of Blackwell's tensor cores; choose a Blackwell card",
               [&] { engine_of(card_named("H200"), sm100); });
  EXPECT_EQ(engine_of(card_named("B200"), sm100), Engine::mx);
}

TEST(Estimate, of_every_recipe_on_every_card_is_finite) {
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    for (const Card& card : all_cards()) {
      const Estimate e = estimate({4096, 2048, 768, 128, 8}, recipe, card);
      EXPECT_GT(e.forward.us(), 0) << recipe.name;
      EXPECT_TRUE(std::isfinite(e.us())) << recipe.name;
      EXPECT_LE(e.forward.us_of(StepKind::quantize), e.forward.us());
    }
  }
}

TEST(Estimate, says_whether_it_used_an_assumed_rate) {
  EXPECT_FALSE(estimate(kSmall, layer_recipe_named("dsv3_pow2"), card_named("H200")).assumes);
  EXPECT_TRUE(estimate(kSmall, layer_recipe_named("fp8_tensor"), card_named("H200")).assumes);
  EXPECT_TRUE(estimate(kSmall, layer_recipe_named("bf16"), card_named("B200")).assumes);
}

TEST(Estimate, kept_bytes_are_those_of_the_page_of_layers) {
  const LayerShape s{32768, 4096, 1024, 128, 8};
  const auto kept = [&](const char* recipe) {
    return estimate(s, layer_recipe_named(recipe), card_named("H200"), test::kBalanced).kept.bytes() /
           std::ldexp(1, 30);
  };
  EXPECT_NEAR(kept("bf16"), 1.250, 0.0005);
  EXPECT_NEAR(kept("mxfp8"), 1.250, 0.0005);
  EXPECT_NEAR(kept("dsv3"), 1.129, 0.0005);
  EXPECT_NEAR(kept("dsv3_pow2"), 0.880, 0.0005);
  EXPECT_EQ(kept("bf16"), sonicmoe_kept(s) / std::ldexp(1, 30));
}

TEST(Estimate, says_which_number_of_a_layer_cannot_be) {
  const auto refused = [](LayerShape shape, const char* text) {
    expect_error(ErrorKind::usage, text, [&] { estimate(shape, layer_recipe_named("bf16"), card_named("H200")); });
  };
  refused({0, 1, 1, 1, 1}, "layer: tokens is 0: must be 1 or more");
  refused({1, -4, 1, 1, 1}, "layer: d_model is -4: must be 1 or more");
  refused({1, 1, 0, 1, 1}, "layer: d_expert is 0");
  refused({1, 1, 1, 0, 1}, "layer: experts is 0");
  refused({1, 1, 1, 1, 0}, "layer: top_k is 0");
  refused({1, 1, 1, 4, 5}, "layer: top_k is 5, and there are 4 experts: a token has each expert at most once");
  refused({1, 1, 1, kMostExperts + 1, 1}, "experts: at most 65536 can be estimated");
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  refused({kHuge, 1, 1, 1, 1}, "beyond 2^63 - 1; use smaller dimensions");
  refused({1, kHuge, 1, 1, 1}, "beyond 2^63 - 1");
  refused({1, 1, kHuge, 1, 1}, "layer: H: 4611686018427387904 x 2 is beyond 2^63 - 1");
  refused({std::int64_t{1} << 32, std::int64_t{1} << 30, 1, 1, 1}, "layer: Y: 4611686018427387904 x 4 is beyond");
  expect_error(ErrorKind::usage, "microbatches: 1 or more are needed", [] {
    estimate(kSmall, layer_recipe_named("bf16"), card_named("H200"), {.load = {}, .microbatches = 0});
  });
  expect_error(ErrorKind::usage, "3 GPUs cannot hold 2 experts in equal parts", [] {
    estimate(kSmall, layer_recipe_named("bf16"), card_named("H200"), {.load = {}, .microbatches = 1, .gpus = 3});
  });
}

TEST(PaysFrom, is_the_smallest_size_from_which_on_the_recipe_is_faster) {
  const LayerShape s{32768, 4096, 1024, 128, 8};
  const Card& card = card_named("H200");
  const LayerRecipe& recipe = layer_recipe_named("dsv3_pow2");
  const auto is_faster = [&](std::int64_t tokens) {
    LayerShape at = s;
    at.tokens = tokens;
    return estimate(at, recipe, card).us() < estimate(at, layer_recipe_named("bf16"), card).us();
  };
  const std::int64_t from = pays_from(Dimension::tokens, s, recipe, card);
  EXPECT_TRUE(is_faster(from));
  EXPECT_FALSE(is_faster(from - 1));
  EXPECT_EQ(pays_from(Dimension::tokens, s, layer_recipe_named("nvfp4"), card), 0);
  EXPECT_EQ(pays_from(Dimension::d_expert, s, recipe, card), 1);
  EXPECT_GT(pays_from(Dimension::d_expert, s, layer_recipe_named("fp8_tensor"), card), 1);
  // Sizes that overflow are not looked at; counts are those of one number of tokens.
  EXPECT_NO_THROW(pays_from(Dimension::d_expert, {1, std::int64_t{1} << 30, 64, 1 << 16, 1}, recipe, card));
  const EstimateOptions counts{.load = {LoadKind::counts, 0, std::vector<std::int64_t>(128, 2048)}};
  EXPECT_EQ(pays_from(Dimension::tokens, s, recipe, card, counts), from);
}

}  // namespace
}  // namespace mxcheck
