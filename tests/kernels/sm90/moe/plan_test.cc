// Layers as lists of steps, without a device: which steps each recipe has, what they count, and how much workspace they
// take, whose parts that live at a time never share a byte, and whose gaps are used again.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/candidate_kept_weights.h"
#include "kernels/common/refusal.h"
#include "kernels/sm90/moe/few/plan.h"
#include "kernels/sm90/moe/moe_builder.h"
#include "kernels/sm90/moe/moe_plan.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::uint64_t kTokens = 1000;
constexpr std::uint64_t kD = 512;
constexpr std::uint64_t kN = 256;
constexpr std::uint64_t kExperts = 8;
constexpr std::uint64_t kRouted = 4000;
constexpr std::uint64_t kSmall = 16384;  // bytes: tables, sums, and what rounds parts up

struct Layer {
  mxcheck_moe_policy policy{};
  mxcheck_call call{};
  explicit Layer(const char* recipe) {
    policy.policy.size = sizeof policy, policy.policy.format = "", policy.policy.recipe = recipe;
    policy.policy.rows = kTokens, policy.policy.cols = kD;
    policy.inner = kN, policy.experts = kExperts, policy.routed = kRouted;
    call.size = sizeof call, call.policy = &policy.policy;
  }
};

std::vector<std::string> names(const MoePlan& plan) {
  std::vector<std::string> all;
  for (const MoeStep& step : plan.steps) all.push_back(step.name);
  return all;
}

const MoeStep& step_named(const MoePlan& plan, const std::string& name) {
  const auto at =
      std::find_if(plan.steps.begin(), plan.steps.end(), [&](const MoeStep& step) { return step.name == name; });
  EXPECT_NE(at, plan.steps.end()) << name;
  return *at;
}

// The status of a call that is refused.
template <class Plan>
mxcheck_status status_of(const Plan& plan) {
  try {
    plan();
  } catch (const Refusal& refusal) {
    return refusal.status();
  }
  return MXCHECK_OK;
}

const char* const kRecipes[] = {"bf16", "mxfp8",     "mxfp8_floor",       "mxfp8_e5m2_grad", "broken",
                                "dsv3", "dsv3_pow2", "dsv3_128x128_grad", "fp8_tensor"};

TEST(MoePlan, a_layer_in_bf16_has_the_steps_of_its_definition) {
  const Layer layer("bf16");
  EXPECT_EQ(names(moe_forward_plan(layer.call)),
            (std::vector<std::string>{"check routes", "gather X", "up", "swiglu", "down", "aggregate"}));
  EXPECT_EQ(names(moe_backward_plan(layer.call)),
            (std::vector<std::string>{"check routes", "gather dO", "d_down", "swiglu_backward", "d_w2", "d_up",
                                      "gather X", "d_w1", "d_aggregate"}));
}

TEST(MoePlan, every_recipe_has_the_same_gemms_with_the_same_products) {
  for (const char* recipe : kRecipes) {
    SCOPED_TRACE(recipe);
    const Layer layer(recipe);
    const MoePlan forward = moe_forward_plan(layer.call);
    const MoePlan backward = moe_backward_plan(layer.call);
    EXPECT_EQ(step_named(forward, "up").products, kRouted * kD * 2 * kN);
    EXPECT_EQ(step_named(forward, "down").products, kRouted * kD * kN);
    EXPECT_EQ(step_named(backward, "d_down").products, kRouted * kD * kN);
    EXPECT_EQ(step_named(backward, "d_w2").products, kRouted * kD * kN);
    EXPECT_EQ(step_named(backward, "d_up").products, kRouted * kD * 2 * kN);
    EXPECT_EQ(step_named(backward, "d_w1").products, kRouted * kD * 2 * kN);
  }
}

// The products of a step counted from its operands' extents.
std::uint64_t products_of(const MoeGemm& gemm) {
  const std::uint64_t sums = gemm.kind == MatmulKind::rows ? static_cast<std::uint64_t>(gemm.k) : kRouted;
  return gemm.outputs() * sums / (gemm.kind == MatmulKind::depth ? kExperts : 1);
}

TEST(MoePlan, gemms_and_no_other_steps_say_what_they_multiply) {
  for (const char* recipe : kRecipes) {
    const Layer layer(recipe);
    const bool fp8 = std::string(recipe).rfind("dsv3", 0) == 0 || std::string(recipe) == "fp8_tensor";
    for (const MoePlan& plan : {moe_forward_plan(layer.call), moe_backward_plan(layer.call)}) {
      for (const MoeStep& step : plan.steps) {
        SCOPED_TRACE(std::string(recipe) + " " + step.name);
        ASSERT_EQ(step.gemm.has_value(), step.kind == MoeStepKind::gemm);
        if (!step.gemm) continue;
        EXPECT_EQ(products_of(*step.gemm), step.products);
        EXPECT_EQ(step.gemm->format, fp8 ? MoeGemm::Format::e4m3 : MoeGemm::Format::bf16);
        // Along tokens, and weights that are multiplied as they lie; codes always have k last.
        const bool depth = step.gemm->kind == MatmulKind::depth;
        EXPECT_EQ(step.gemm->a.by_k, depth && !fp8);
        EXPECT_EQ(step.gemm->b.by_k, (depth || step.name == "up" || step.name == "down") && !fp8);
        EXPECT_EQ(depth, step.name == "d_w1" || step.name == "d_w2");
      }
    }
  }
}

TEST(MoePlan, bytes_of_a_step_are_its_inputs_and_outputs_once) {
  const MoePlan plan = moe_forward_plan(Layer("bf16").call);
  const std::uint64_t read = std::min(kTokens, kRouted);
  EXPECT_EQ(step_named(plan, "gather X").bytes, 2 * (read + kRouted) * kD);  // slots are known with tensors alone
  EXPECT_EQ(step_named(plan, "up").bytes, 2 * kRouted * kD + 2 * kExperts * kD * 2 * kN + 2 * kRouted * 2 * kN);
  EXPECT_EQ(step_named(plan, "swiglu").bytes, 2 * kRouted * 3 * kN);
  EXPECT_EQ(step_named(plan, "down").bytes, 2 * kRouted * kN + 2 * kExperts * kN * kD + 2 * kRouted * kD);
}

TEST(MoePlan, a_workspace_is_what_lives_at_a_time) {
  const Layer layer("bf16");
  const std::uint64_t forward = moe_forward_plan(layer.call).workspace_bytes;
  EXPECT_GE(forward, 2 * kRouted * (kN + kD));
  EXPECT_LE(forward, 2 * kRouted * (kN + kD) + kSmall);
  const std::uint64_t backward = moe_backward_plan(layer.call).workspace_bytes;
  EXPECT_GE(backward, kRouted * (10 * kN + 2 * kD));
  EXPECT_LE(backward, kRouted * (10 * kN + 2 * kD) + kSmall);
}

// A call that keeps weights, uses them or asks how large the memory must be.
struct KeptLayer {
  mxcheck_moe_kept_policy policy{};
  mxcheck_call call{};
  KeptLayer(const char* recipe, int mode, std::int64_t tokens = kTokens) {
    policy.moe = Layer(recipe).policy;
    policy.moe.policy.size = sizeof policy, policy.moe.policy.rows = tokens, policy.kept.mode = mode;
    call.size = sizeof call, call.policy = &policy.moe.policy;
  }
};

TEST(MoePlan, kept_weights_are_quantized_by_the_call_that_keeps_them) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(moe_forward_plan(KeptLayer("dsv3", MXCHECK_WEIGHTS_KEEP).call)),
            (Names{"check routes", "begin keeping weights", "digest W1", "digest W2", "quantize X", "gather X",
                   "quantize W1", "up", "swiglu", "quantize W2", "down", "aggregate", "keep weights"}));
  EXPECT_EQ(
      names(moe_forward_plan(KeptLayer("dsv3", MXCHECK_WEIGHTS_KEPT).call)),
      (Names{"check routes", "check kept weights", "quantize X", "gather X", "up", "swiglu", "down", "aggregate"}));
  EXPECT_EQ(names(moe_forward_plan(KeptLayer("mxfp8", MXCHECK_WEIGHTS_CHECKED).call)),
            (Names{"check routes", "begin digests", "digest W1", "digest W2", "check kept weights", "quantize X",
                   "gather X", "up", "swiglu", "quantize A", "down", "aggregate"}));
}

TEST(MoePlan, the_header_of_kept_weights_is_written_after_all_that_it_vouches_for) {
  for (const char* recipe : {"dsv3", "dsv3_pow2", "fp8_tensor", "mxfp8", "nvfp4", "nvfp4_46"}) {
    for (const auto plan : {moe_forward_plan, moe_backward_plan}) {
      const std::vector<std::string> steps = names(plan(KeptLayer(recipe, MXCHECK_WEIGHTS_KEEP).call));
      EXPECT_EQ(steps.back(), "keep weights") << recipe;
      EXPECT_EQ(std::count(steps.begin(), steps.end(), "keep weights"), 1) << recipe;
    }
  }
}

TEST(MoePlan, memory_for_kept_weights_is_that_of_weights_alone) {
  constexpr std::uint64_t kWeights = 3 * kExperts * kD * kN;
  for (const char* recipe : {"dsv3", "dsv3_pow2", "dsv3_128x128_grad", "fp8_tensor", "mxfp8", "nvfp4"}) {
    SCOPED_TRACE(recipe);
    const bool codes = std::string(recipe).rfind("dsv3", 0) == 0 || std::string(recipe) == "fp8_tensor";
    for (const auto plan : {moe_forward_plan, moe_backward_plan}) {
      const std::uint64_t bytes = plan(KeptLayer(recipe, MXCHECK_WEIGHTS_BYTES).call).kept_bytes;
      EXPECT_TRUE(plan(KeptLayer(recipe, MXCHECK_WEIGHTS_BYTES).call).asks_for_kept_bytes);
      EXPECT_GE(bytes, (codes ? 1 : 2) * kWeights);
      EXPECT_LE(bytes, (codes ? 1 : 2) * kWeights + kSmall);
      EXPECT_EQ(plan(KeptLayer(recipe, MXCHECK_WEIGHTS_KEPT, 3).call).kept_bytes, bytes);
      const MoePlan kept = plan(KeptLayer(recipe, MXCHECK_WEIGHTS_KEPT).call);
      EXPECT_EQ(kept.kept_bytes, bytes);
      EXPECT_LE(kept.workspace_bytes, plan(Layer(recipe).call).workspace_bytes);
    }
  }
}

TEST(MoePlan, kept_weights_of_other_recipes_and_modes_are_refused) {
  EXPECT_THROW(moe_forward_plan(KeptLayer("bf16", MXCHECK_WEIGHTS_KEEP).call), Refusal);
  EXPECT_THROW(moe_backward_plan(KeptLayer("quartet2", MXCHECK_WEIGHTS_KEEP).call), Refusal);
  EXPECT_THROW(moe_forward_plan(KeptLayer("nvfp4_backward", MXCHECK_WEIGHTS_KEEP).call), Refusal);
  for (const int mode : {0, -1, 5}) EXPECT_THROW(moe_forward_plan(KeptLayer("dsv3", mode).call), Refusal) << mode;
  KeptLayer cut("dsv3", MXCHECK_WEIGHTS_KEEP);
  cut.policy.moe.policy.size = sizeof(mxcheck_moe_policy) + 8;
  EXPECT_THROW(moe_forward_plan(cut.call), Refusal);
  KeptLayer reserved("dsv3", MXCHECK_WEIGHTS_KEEP);
  reserved.policy.kept.reserved = 1;
  EXPECT_EQ(status_of([&] { moe_forward_plan(reserved.call); }), MXCHECK_INVALID);
}

TEST(MoePlan, without_extents_there_are_checks_to_make) {
  Layer layer("dsv3");
  layer.policy.policy.rows = layer.policy.policy.cols = 0;
  layer.policy.inner = layer.policy.experts = layer.policy.routed = 0;
  EXPECT_GT(moe_forward_plan(layer.call).workspace_bytes, 0U);
  EXPECT_GT(moe_backward_plan(layer.call).workspace_bytes, 0U);
}

TEST(MoePlan, few_tokens_take_three_launches_where_the_forward_pass_multiplies_bf16_or_blocks_of_fp8) {
  const auto launches = [](const char* recipe, std::uint64_t tokens, std::uint64_t routed, std::uint64_t experts) {
    Layer layer(recipe);
    layer.policy.policy.rows = static_cast<std::int64_t>(tokens);
    layer.policy.routed = static_cast<std::int64_t>(routed), layer.policy.experts = static_cast<std::int64_t>(experts);
    return moe_forward_plan(layer.call).steps.size();
  };
  for (const char* recipe : {"bf16", "nvfp4_backward", "dsv3", "dsv3_pow2", "dsv3_128x128_grad"}) {
    EXPECT_EQ(launches(recipe, 256, 4096, 1024), 3U) << recipe;
    EXPECT_EQ(launches(recipe, 1, 1, 1), 3U) << recipe;
    EXPECT_GT(launches(recipe, 257, 4096, 1024), 3U) << recipe;
    EXPECT_GT(launches(recipe, 256, 4097, 1024), 3U) << recipe;
    EXPECT_GT(launches(recipe, 256, 4096, 1025), 3U) << recipe;
    EXPECT_GT(launches(recipe, 256, 0, 8), 3U) << recipe;
  }
  for (const char* recipe : {"mxfp8", "fp8_tensor", "nvfp4", "nvfp4_forward", "quartet2"}) {
    EXPECT_GT(launches(recipe, 1, 1, 1), 3U) << recipe;
  }
}

TEST(MoePlan, few_tokens_need_no_room_for_weights) {
  Layer layer("dsv3");
  layer.policy.policy.rows = 8, layer.policy.routed = 16, layer.policy.experts = 64;
  EXPECT_LT(moe_forward_plan(layer.call).workspace_bytes, std::uint64_t{1} << 20);
  EXPECT_GT(moe_forward_steps_plan(layer.call).workspace_bytes, 64 * kD * 2 * kN);
}

TEST(MoePlan, weights_as_codes_are_for_few_tokens_and_recipes_that_multiply_them) {
  const MoeCodedWeights weights;
  Layer layer("dsv3");
  EXPECT_THROW(moe_few_plan(layer.call, weights), Refusal);
  layer.policy.policy.rows = 8, layer.policy.routed = 16;
  EXPECT_EQ(moe_few_plan(layer.call, weights).steps.size(), 3U);
  MoeCodedWeights unaligned;
  unaligned.w2 = std::bit_cast<const std::uint8_t*>(std::uintptr_t{8});
  EXPECT_THROW(moe_few_plan(layer.call, unaligned), Refusal);
  for (const void* MoeCodedWeights::*scales : {&MoeCodedWeights::w1_scales, &MoeCodedWeights::w2_scales}) {
    MoeCodedWeights odd;
    odd.*scales = std::bit_cast<const void*>(std::uintptr_t{2});
    layer.policy.policy.recipe = "dsv3";
    EXPECT_EQ(status_of([&] { moe_few_plan(layer.call, odd); }), MXCHECK_INVALID);
    layer.policy.policy.recipe = "dsv3_pow2";  // scales are bytes
    EXPECT_EQ(status_of([&] { moe_few_plan(layer.call, odd); }), MXCHECK_OK);
  }
  for (const char* recipe : {"bf16", "fp8_tensor", "mxfp8"}) {
    layer.policy.policy.recipe = recipe;
    EXPECT_THROW(moe_few_plan(layer.call, weights), Refusal) << recipe;
  }
}

TEST(MoePlan, extents_beyond_the_kernels_are_refused) {
  for (std::int64_t mxcheck_moe_policy::*field :
       {&mxcheck_moe_policy::inner, &mxcheck_moe_policy::experts, &mxcheck_moe_policy::routed}) {
    for (const std::int64_t value : {std::int64_t{-1}, INT64_MAX, INT64_MAX / 2, std::int64_t{1} << 31}) {
      Layer layer("bf16");
      layer.policy.*field = value;
      EXPECT_THROW(moe_forward_plan(layer.call), Refusal) << value;
      EXPECT_THROW(moe_backward_plan(layer.call), Refusal) << value;
    }
  }
}

// A launch would fail after others have written.
TEST(MoePlan, widths_beyond_the_grids_of_nvfp4_are_not_offered) {
  constexpr std::int64_t kMostWidth = 65535 * 32;
  Layer layer("nvfp4");
  layer.policy.inner = kMostWidth / 2 + 8;
  EXPECT_EQ(status_of([&] { moe_forward_plan(layer.call); }), MXCHECK_UNSUPPORTED);
  layer.policy.inner = kMostWidth / 2;
  EXPECT_EQ(status_of([&] { moe_forward_plan(layer.call); }), MXCHECK_OK);
  Layer eden("quartet2");
  eden.policy.policy.cols = kMostWidth + 8;
  EXPECT_EQ(status_of([&] { moe_backward_plan(eden.call); }), MXCHECK_UNSUPPORTED);
}

TEST(Arena, the_memory_of_what_was_dropped_is_handed_out_again) {
  Arena arena(nullptr);
  const Part first = arena.take(3, 100);
  const Part second = arena.take(1, 1);
  EXPECT_EQ(first.at, 0U);
  EXPECT_EQ(second.at, 512U);
  arena.drop(first);
  EXPECT_EQ(arena.take(1, 512).at, 0U);
  EXPECT_EQ(arena.take(1, 256).at, 768U);
  EXPECT_EQ(arena.bytes(), 1024U);
}

TEST(Arena, a_gap_that_is_too_small_stays_one) {
  Arena arena(nullptr);
  const Part first = arena.take(1, 256);
  const Part second = arena.take(1, 256);
  arena.drop(first);
  EXPECT_EQ(arena.take(1, 512).at, 512U);
  EXPECT_EQ(arena.take(1, 10).at, 0U);
  arena.drop(second);
  EXPECT_EQ(arena.bytes(), 1024U);
}

TEST(Arena, parts_that_live_at_a_time_are_disjoint) {
  std::mt19937 random(7);
  Arena arena(nullptr);
  std::vector<Part> live;
  for (int i = 0; i < 2000; ++i) {
    if (!live.empty() && random() % 2 == 0) {
      const auto at = static_cast<std::ptrdiff_t>(random() % live.size());
      arena.drop(live[static_cast<std::size_t>(at)]);
      live.erase(live.begin() + at);
      continue;
    }
    const Part part = arena.take(1 + static_cast<std::int64_t>(random() % 40), 100);
    EXPECT_EQ(part.at % 256, 0U);
    EXPECT_LE(part.at + part.bytes, arena.bytes());
    for (const Part& other : live) EXPECT_TRUE(part.at + part.bytes <= other.at || other.at + other.bytes <= part.at);
    live.push_back(part);
  }
}

TEST(Arena, no_bytes_need_no_memory) {
  unsigned char memory[256];
  Arena arena(memory);
  const Part none = arena.take(0, 1000);
  EXPECT_EQ(arena.bytes(), 0U);
  EXPECT_EQ(arena.at<void>(none), nullptr);
  arena.drop(none);
  EXPECT_EQ(arena.at<void>(arena.take(1, 1)), static_cast<void*>(memory));
}

TEST(Arena, sizes_beyond_an_address_are_refused) {
  Arena arena(nullptr);
  EXPECT_THROW(arena.take(INT64_MAX, 2), Refusal);
  EXPECT_THROW(arena.take(INT64_MAX, 1), Refusal);
}

}  // namespace
}  // namespace mxcheck_kernels::sm90
