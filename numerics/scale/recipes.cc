// The table of recipes: the rules' own and the presets, of one level of scales and of two.

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/scale_rule.h"
#include "numerics/scale/two_level.h"

namespace mxcheck {
namespace {

// The library, and the release or commit of it, that each preset was compared with; docs/numerics.md says how.
constexpr std::array<Named<std::string_view>, 39> kCheckedAgainst{
    {{"ocp", "OCP MX 1.0"},
     {"te", "TransformerEngine d0067d0"},
     {"te_ftz", "TransformerEngine d0067d0, flushing subnormals"},
     {"torchao", "torchao 36027d8, RCEIL"},
     {"torchao_old", "torchao 0.17.0, RCEIL, eager"},
     {"torchao_0_18", "torchao 0.18.0, RCEIL, eager"},
     {"torchao_0_18_floor", "torchao 0.18.0 and 0.17.0, FLOOR, eager"},
     {"torchao_0_18_ceil", "torchao 0.18.0 and 0.17.0, CEIL, eager"},
     {"torchao_0_18_even", "torchao 0.18.0 and 0.17.0, EVEN, eager"},
     {"torchao_floor", "torchao 36027d8, FLOOR, eager"},
     {"torchao_floor_cuda", "torchao 36027d8, FLOOR, CUDA kernel"},
     {"torchao_ceil", "torchao 36027d8, CEIL"},
     {"torchao_even", "torchao 36027d8, EVEN"},
     {"deepgemm_host", "DeepGEMM 54e2261, Python utilities"},
     {"deepgemm_device", "DeepGEMM 54e2261, mega-MoE"},
     {"deepgemm_fp32", "DeepGEMM 54e2261, float scales"},
     {"dsv3", "DeepSeek-V3 9b4e978, act_quant, ue8m0"},
     {"dsv3_fp32", "DeepSeek-V3 9b4e978, act_quant"},
     {"tilekernels_fp32", "DeepSeek TileKernels 36d9e45, E4M3"},
     {"microxcaling_python", "microxcaling 7bc4195, Python"},
     {"microxcaling_cuda", "microxcaling 7bc4195, CUDA"},
     {"gfloat", "gfloat 0.5.2 and b142762, on FP32"},
     {"thunderkittens", "ThunderKittens 0b55588, MXFP8 kernel"},
     {"triton", "Triton 018a674, ROUND_UP reference in PyTorch"},
     {"triton_down", "Triton 018a674, ROUND_DOWN reference in PyTorch"},
     {"cutlass_host", "CUTLASS 7107b05, host float to E8M0"},
     {"cutlass_device", "CUTLASS 7107b05, device float to E8M0"},
     {"nvfp4_te", "TransformerEngine 2.14 to 2.18 and d0067d0, kernels without fast math"},
     {"nvfp4_te_2_8", "TransformerEngine 2.8 to 2.13"},
     {"nvfp4_cutlass", "CUTLASS 7107b05, host reference of block-scaled outputs"},
     {"nvfp4_modelopt", "Model-Optimizer a2fbac7, NVFP4QTensor on a CPU"},
     {"nvfp4_torchao", "torchao 36027d8, eager, two levels"},
     {"nvfp4_mslk", "MSLK 2a3c897, Triton kernel of torchao"},
     {"nvfp4_torchao_0_16", "torchao 0.16, Triton kernel"},
     {"nvfp4_flashinfer", "FlashInfer fb28d72, CUDA, exact math"},
     {"nvfp4_vllm", "vLLM 20b4ad8 and SGLang 0fb8f05, but reciprocals as if correctly rounded"},
     {"nvfp4_trtllm", "TensorRT-LLM 0193dbd, but reciprocals as if correctly rounded"},
     {"nvfp4_compressed_tensors", "compressed-tensors ac8e2ba, statistics in FP32"},
     {"nvfp4_46", "fouroversix dadfad6, PyTorch reference, errors summed in order"}}};

Recipe named(std::string name, ScaleRule rule) {
  Recipe recipe;
  recipe.checked_against = value_in(kCheckedAgainst, name).value_or("");
  recipe.name = std::move(name);
  recipe.rule = rule;
  return recipe;
}

template <class Change>
Recipe with(Recipe recipe, Change change) {
  change(recipe);
  return recipe;
}

// The eager code of torchao 0.18, in all its rules but RCEIL: Inf counts as 2^128, a NaN block's elements are
// divided by the Inf that byte 255 decodes to, and byte 0 by the smallest normal number instead of 2^-127.
Recipe torchao_0_18(std::string name, ScaleRule rule) {
  Recipe r = named(std::move(name), rule);
  r.inf_byte = std::nullopt;
  r.nan_factor = 0;
  r.scaling = ElementScaling::normal_at_byte_zero;
  return r;
}

std::vector<Recipe> make_recipes() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return {
      named("rceil", ScaleRule::rceil),
      named("floor", ScaleRule::floor),
      named("ceil", ScaleRule::ceil),
      named("even", ScaleRule::even),
      named("fp32", ScaleRule::fp32),
      named("ocp", ScaleRule::floor),
      with(named("te", ScaleRule::rceil_fp32), [](Recipe& r) { r.nan = NanPolicy::drop, r.inf_byte = 254; }),
      with(named("te_ftz", ScaleRule::rceil_ftz), [](Recipe& r) { r.nan = NanPolicy::drop, r.inf_byte = 254; }),
      named("torchao", ScaleRule::rceil_fp32),
      with(named("torchao_old", ScaleRule::rceil_log2),
           [](Recipe& r) { r.inf_byte = 254, r.nan_factor = 0x1p-128, r.scaling = ElementScaling::one_at_byte_zero; }),
      with(named("torchao_0_18", ScaleRule::rceil_log2),
           [](Recipe& r) { r.inf_byte = 254, r.scaling = ElementScaling::one_at_byte_zero; }),
      torchao_0_18("torchao_0_18_floor", ScaleRule::floor),
      torchao_0_18("torchao_0_18_ceil", ScaleRule::ceil),
      torchao_0_18("torchao_0_18_even", ScaleRule::even_carry),
      named("torchao_floor", ScaleRule::floor),
      named("torchao_floor_cuda", ScaleRule::floor_fp32),
      named("torchao_ceil", ScaleRule::ceil),
      named("torchao_even", ScaleRule::even),
      with(named("deepgemm_host", ScaleRule::rceil_bits),
           [](Recipe& r) {
             r.amax_min = 1e-4F, r.byte_min = 1, r.byte_max = 254, r.inf_byte = 254, r.nan_byte = 254;
             r.overflow = Overflow::non_saturate;
           }),
      with(named("deepgemm_device", ScaleRule::rceil_bits_mul),
           [](Recipe& r) {
             r.nan = NanPolicy::drop, r.nan_byte = 0, r.inf_factor = -kInf;
             r.scaling = ElementScaling::shifted_exponent;
           }),
      with(named("deepgemm_fp32", ScaleRule::fp32),
           [](Recipe& r) {
             r.amax_min = 1e-4F, r.scaling = ElementScaling::times_reciprocal, r.overflow = Overflow::non_saturate;
             r.inf_factor = 0;
           }),
      with(named("dsv3", ScaleRule::rceil_log2),
           [](Recipe& r) { r.nan = NanPolicy::drop, r.nan_byte = 105, r.amax_min = 1e-4F, r.inf_factor = 0; }),
      with(named("dsv3_fp32", ScaleRule::fp32),
           [](Recipe& r) { r.nan = NanPolicy::drop, r.amax_min = 1e-4F, r.inf_factor = 0; }),
      with(named("tilekernels_fp32", ScaleRule::fp32),
           [](Recipe& r) { r.amax_min = 1e-4F, r.scaling = ElementScaling::times_quotient, r.inf_factor = 0; }),
      with(named("microxcaling_python", ScaleRule::floor_log2),
           [](Recipe& r) {
             r.rounding = Rounding::nearest_away, r.scaling = ElementScaling::half_in_fp32;
             r.drop_negative_zero = DropNegativeZero::of_quotient;
           }),
      with(named("microxcaling_cuda", ScaleRule::floor),
           [](Recipe& r) { r.rounding = Rounding::nearest_away, r.drop_negative_zero = DropNegativeZero::of_code; }),
      with(named("gfloat", ScaleRule::floor_log2), [](Recipe& r) { r.inf_byte = 254, r.nan_sign = true; }),
      with(named("thunderkittens", ScaleRule::rceil_fp32),
           [](Recipe& r) { r.nan = NanPolicy::drop, r.quotient_min = 1e-12F, r.inf_byte = 254, r.nan_byte = 88; }),
      with(named("triton", ScaleRule::rceil_bits),
           [](Recipe& r) { r.nan_byte = 0, r.inf_factor = 0, r.scaling = ElementScaling::zero_at_byte_zero; }),
      with(named("triton_down", ScaleRule::floor_fp32),
           [](Recipe& r) { r.inf_factor = 0, r.nan_factor = 0, r.scaling = ElementScaling::zero_at_byte_zero; }),
      named("cutlass_host", ScaleRule::rceil_fp32),
      with(named("cutlass_device", ScaleRule::rceil_fp32), [](Recipe& r) { r.inf_byte = 254; }),
  };
}

// Recipes of two levels: two_level.h defines the words, docs/nvfp4.md says what each was read from.
std::vector<Recipe> make_two_level_recipes() {
  const auto preset = [](std::string name, NanPolicy nan, BlockQuotient block, ElementQuotient element) {
    Recipe r = named(std::move(name), ScaleRule::e4m3);
    r.nan = nan, r.two_level.block = block, r.two_level.element = element;
    return r;
  };
  const auto computed_by = [](Recipe r, bool encode_first, StoredScale stored, TensorAmax amax, auto change) {
    r.two_level.encode_first = encode_first, r.two_level.stored = stored, r.two_level.amax = amax;
    change(r, r.two_level);
    return r;
  };
  using B = BlockQuotient;
  using E = ElementQuotient;
  const auto drops = NanPolicy::drop;
  const auto propagates = NanPolicy::propagate;
  const auto like_te = [](Recipe&, TwoLevel& t) {
    t.replaces_zero = true, t.has_largest_encode = true, t.has_largest_factor = true;
  };
  return {
      computed_by(
          preset("nvfp4", propagates, B::exact, E::exact), false, StoredScale::decode, TensorAmax::finite,
          [](Recipe&, TwoLevel& t) { t.replaces_zero = true, t.inf_is_nan = true, t.zero = ZeroTest::of_scale; }),
      computed_by(preset("nvfp4_te", drops, B::times_scaled_encode, E::inverse_of_product), true, StoredScale::amax,
                  TensorAmax::drops_nan, like_te),
      computed_by(preset("nvfp4_te_2_8", drops, B::quotient_times_encode, E::inverse_of_product), true,
                  StoredScale::amax, TensorAmax::drops_nan, like_te),
      computed_by(preset("nvfp4_cutlass", propagates, B::times_scaled_encode, E::encode_times_inverse), true,
                  StoredScale::encode, TensorAmax::propagates, like_te),
      computed_by(preset("nvfp4_modelopt", propagates, B::over_scaled_decode, E::over_product), false,
                  StoredScale::decode, TensorAmax::propagates,
                  [](Recipe& r, TwoLevel& t) {
                    t.of_zero = std::nullopt, t.of_zero_quotient = 1, t.block_min = 0x1p-9F;
                    r.drop_negative_zero = DropNegativeZero::of_quotient;
                  }),
      computed_by(preset("nvfp4_torchao", propagates, B::quotient_over_decode, E::encode_over_scale), false,
                  StoredScale::decode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) { t.of_zero = std::nullopt, t.block_min = 0x1p-6F; }),
      computed_by(preset("nvfp4_mslk", propagates, B::quotient_times_encode, E::encode_over_scale), false,
                  StoredScale::decode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) { t.of_zero = std::nullopt, t.block_min = 0x1p-9F; }),
      computed_by(preset("nvfp4_torchao_0_16", propagates, B::quotient_over_decode, E::over_product), false,
                  StoredScale::decode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) { t.of_zero = std::nullopt, t.block_min = 0x1p-16F; }),
      computed_by(preset("nvfp4_flashinfer", drops, B::times_scaled_encode, E::inverse_of_product), true,
                  StoredScale::encode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) {
                    t.of_zero = std::numeric_limits<float>::max(), t.has_largest_factor = true,
                    t.zero = ZeroTest::of_amax;
                  }),
      computed_by(preset("nvfp4_vllm", drops, B::product_times_encode, E::inverse_of_product), true,
                  StoredScale::encode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) { t.zero = ZeroTest::of_scale; }),
      computed_by(preset("nvfp4_trtllm", drops, B::product_times_encode, E::inverse_of_product), true,
                  StoredScale::encode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) { t.zero = ZeroTest::of_quotient; }),
      computed_by(preset("nvfp4_compressed_tensors", propagates, B::quotient_times_encode, E::over_quotient), true,
                  StoredScale::encode, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) {
                    t.amax_min = std::numeric_limits<float>::min();
                    t.of_zero = std::nullopt, t.of_nonfinite = 1.0F, t.of_zero_scale = 0x20;
                  }),
      computed_by(preset("nvfp4_46", propagates, B::quotient_times_encode, E::inverse_of_product), true,
                  StoredScale::amax, TensorAmax::propagates,
                  [](Recipe&, TwoLevel& t) {
                    t.limit = 256, t.zero = ZeroTest::of_scale, t.choice = BlockChoice::squared_error;
                  }),
  };
}

constexpr std::array<Named<std::string_view>, 3> kAliases{
    {{"deepgemm", "deepgemm_host"}, {"microxcaling", "microxcaling_python"}, {"cutlass", "cutlass_device"}}};

}  // namespace

std::span<const Recipe> all_recipes() {
  static const std::vector<Recipe> recipes = make_recipes();
  return recipes;
}

std::span<const Recipe> two_level_recipes() {
  static const std::vector<Recipe> recipes = make_two_level_recipes();
  return recipes;
}

namespace {

const std::vector<Recipe>& both_lists() {
  static const std::vector<Recipe> both = [] {
    std::vector<Recipe> list(all_recipes().begin(), all_recipes().end());
    list.insert(list.end(), two_level_recipes().begin(), two_level_recipes().end());
    return list;
  }();
  return both;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : both_lists()) names.push_back(recipe.name);
  return names;
}

Recipe any_recipe_named(std::string_view name) {
  for (const auto& [alias, recipe] : kAliases) {
    if (alias == name) name = recipe;
  }
  return entry_named(both_lists(), "rule or preset", name);
}

Recipe recipe_named(std::string_view name) {
  for (const Recipe& recipe : two_level_recipes()) {
    if (recipe.name != name) continue;
    throw Error(ErrorKind::usage, "recipe " + recipe.name +
                                      " has two levels of scales, and one is needed here; quantize, dequantize, scale "
                                      "and identify take two");
  }
  for (const auto& [alias, recipe] : kAliases) {
    if (alias == name) name = recipe;
  }
  return entry_named(all_recipes(), "rule or preset", name);
}

}  // namespace mxcheck
