#include "numerics/scale/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "numerics/names.h"

namespace mxcheck {
namespace {

// The library, and the release or commit of it, that each preset was compared with; docs/numerics.md says how.
constexpr std::array<Named<std::string_view>, 27> kCheckedAgainst{
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
     {"cutlass_device", "CUTLASS 7107b05, device float to E8M0"}}};

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

// What the eager code of torchao 0.18 does in all its rules but RCEIL: Inf counts as 2^128, a NaN block's elements are
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

constexpr std::array<Named<std::string_view>, 3> kAliases{
    {{"deepgemm", "deepgemm_host"}, {"microxcaling", "microxcaling_python"}, {"cutlass", "cutlass_device"}}};

std::uint8_t finite_byte(const Recipe& r, Format element, float amax) {
  const float a = std::max(std::fabs(amax), r.amax_min);
  const bool quotient_raised = a * reciprocal_of_largest_value(element) < r.quotient_min;
  const std::uint8_t byte = quotient_raised ? e8m0_round_up(r.quotient_min) : scale_byte(r.rule, element, a);
  return std::clamp(byte, r.byte_min, r.byte_max);
}

// A factor for byte 0..254; 255 is the caller's.
double factor_of(ElementScaling scaling, std::uint8_t byte) {
  if (scaling == ElementScaling::one_at_byte_zero && byte == 0) return 1;
  if (scaling == ElementScaling::zero_at_byte_zero && byte == 0) return 0;
  if (scaling == ElementScaling::normal_at_byte_zero && byte == 0) return 0x1p126;
  if (scaling == ElementScaling::shifted_exponent && byte == 254) return 0;
  return std::ldexp(1.0, 127 - byte);
}

BlockScale fp32_scale(const Recipe& r, Format element, float amax, bool is_nan) {
  BlockScale s;
  if (is_nan || std::isinf(amax)) {
    s.factor = is_nan ? r.nan_factor : r.inf_factor;
    s.poisoned = std::isnan(s.factor);
    s.scale = s.poisoned ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    return s;
  }
  const float a = std::max(amax, r.amax_min);
  s.scale = a / largest_value(element);
  s.round_fp32 = true;
  if (s.scale == 0) {
    s.scale = kScaleOfZeroQuotient;
    s.divide = true;
  } else if (r.scaling == ElementScaling::times_reciprocal) {
    s.factor = 1.0F / s.scale;
  } else if (r.scaling == ElementScaling::times_quotient) {
    s.factor = largest_value(element) / a;
  } else {
    s.divide = true;
  }
  return s;
}

// ElementScaling::half_in_fp32: floor(|v| / step + 0.5) in FP32, step being the smallest of the format, is right but
// for |v| / step = 0.5 - 2^-25, whose sum with 0.5 is a tie that rounds to 1. Above 1 no sum crosses an integer.
double half_in_fp32(Format element, double v) {
  const double half = decode(element, 1) / 2;
  return std::fabs(v) == half * (1 - 0x1p-24) ? std::copysign(half, v) : v;
}

}  // namespace

std::span<const Recipe> all_recipes() {
  static const std::vector<Recipe> recipes = make_recipes();
  return recipes;
}

Recipe recipe_named(std::string_view name) {
  for (const auto& [alias, recipe] : kAliases) {
    if (alias == name) name = recipe;
  }
  return entry_named(all_recipes(), "rule or preset", name);
}

std::uint8_t scale_byte_for_amax(const Recipe& recipe, Format element, float amax) {
  if (std::isnan(amax)) return recipe.nan_byte;
  if (std::isinf(amax)) return recipe.inf_byte ? *recipe.inf_byte : scale_byte(recipe.rule, element, amax);
  return finite_byte(recipe, element, amax);
}

BlockScale block_scale(const Recipe& recipe, Format element, BlockAmax block) {
  const bool is_nan = block.has_nan && recipe.nan != NanPolicy::drop;
  if (!recipe.has_e8m0_scales()) return fp32_scale(recipe, element, block.amax, is_nan);
  const float amax = is_nan ? std::numeric_limits<float>::quiet_NaN() : block.amax;
  BlockScale s;
  s.byte = scale_byte_for_amax(recipe, element, amax);
  s.scale = static_cast<float>(decode(Format::e8m0, s.byte));
  if (s.byte == 255) {
    s.factor = is_nan ? recipe.nan_factor : recipe.inf_factor;
    s.poisoned = std::isnan(s.factor);
  } else {
    s.factor = factor_of(recipe.scaling, s.byte);
  }
  return s;
}

std::uint32_t encode_element(const Recipe& recipe, Format element, const BlockScale& scale, float x,
                             std::uint32_t random_word) {
  const std::uint32_t nan_code = spec(element).nan_code | (recipe.nan_sign ? 1U << (spec(element).bits - 1) : 0U);
  if (scale.poisoned || std::isnan(x)) return nan_code;
  if (recipe.drop_negative_zero != DropNegativeZero::none && x == 0) x = 0;
  double v = 0;
  if (scale.divide) {
    v = x / scale.scale;
  } else {
    v = static_cast<double>(x) * scale.factor;
    if (scale.round_fp32) v = x * static_cast<float>(scale.factor);
  }
  if (recipe.drop_negative_zero == DropNegativeZero::of_quotient && static_cast<float>(v) == 0) v = 0;
  if (recipe.scaling == ElementScaling::half_in_fp32) v = half_in_fp32(element, v);
  const std::uint32_t code = encode(element, v, recipe.rounding, recipe.overflow, random_word);
  if (recipe.drop_negative_zero == DropNegativeZero::of_code && decode(element, code) == 0) return 0;
  return code;
}

}  // namespace mxcheck
