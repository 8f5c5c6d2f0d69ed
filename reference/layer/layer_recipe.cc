#include "reference/layer/layer_recipe.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "reference/layer/operands.h"
#include "reference/matmul/operand.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

OperandRule rule(Format format, BlockShape block, std::string scales, OperandSource source = OperandSource::values) {
  return {format, block, std::move(scales), source};
}

// All six GEMMs from one rule for each kind of operand.
struct Kinds {
  OperandRule activation;         // X, A along their rows
  OperandRule weight;             // W1, W2
  OperandRule gradient;           // dO, dH along their rows
  OperandRule activation_column;  // X, A' along tokens
  OperandRule gradient_column;    // dO, dH along tokens
};

LayerRecipe make(std::string name, std::string meaning, const Kinds& k, const std::string& contract) {
  LayerRecipe r;
  r.name = std::move(name);
  r.meaning = std::move(meaning);
  r.gemms = {{{k.activation, k.weight, contract},
              {k.activation, k.weight, contract},
              {k.gradient, k.weight, contract},
              {k.gradient, k.weight, contract},
              {k.activation_column, k.gradient_column, contract},
              {k.activation_column, k.gradient_column, contract}}};
  return r;
}

// Blocks of 1x32 along k everywhere, E8M0 scales: decoded to BF16, which is exact, for BF16 tensor cores.
LayerRecipe mxfp8(std::string name, std::string meaning, const std::string& scales, Format gradient,
                  const std::string& gradient_scales) {
  const OperandRule value = rule(Format::e4m3, {1, 32}, scales);
  const OperandRule grad = rule(gradient, {1, 32}, gradient_scales);
  return make(std::move(name), std::move(meaning), {value, value, grad, value, grad}, "sm90_bf16+decode");
}

// DeepSeek-V3's blocks. X is kept as it was quantized for up, and quantized again for its weight's gradient.
LayerRecipe dsv3(std::string name, std::string meaning, const std::string& scales, BlockShape gradient) {
  const OperandRule row = rule(Format::e4m3, {1, 128}, scales);
  const OperandRule weight = rule(Format::e4m3, {128, 128}, scales);
  const OperandRule grad = rule(Format::e4m3, gradient, scales);
  LayerRecipe r = make(std::move(name), std::move(meaning), {row, weight, grad, row, grad}, "sm90_fp8+promote128");
  r.gemms[static_cast<std::size_t>(LayerGemm::d_w1)].a.source = OperandSource::requantized;
  r.keeps_quantized_x = true;
  return r;
}

LayerRecipe dsv3_pow2() {
  LayerRecipe r = dsv3("dsv3_pow2", "dsv3 with scales that are powers of two, H kept in E5M6", "rceil", {1, 128});
  r.kept_h = rule(Format::e5m6, {1, 128}, "rceil");
  return r;
}

LayerRecipe fp8_tensor() {
  const OperandRule whole = rule(Format::e4m3, {0, 0}, "fp32");
  return make("fp8_tensor", "one FP32 scale a tensor, E4M3", {whole, whole, whole, whole, whole},
              "sm90_fp8+promote128");
}

// NVIDIA's recipe for pretraining (arXiv 2509.25149) as TransformerEngine 2.14 computes it: activations and gradients
// in 1x16, weights in 16x16, operands of the weights' gradients rotated along tokens, gradients rounded stochastically.
// Not of it: the layers that stay in BF16, which a run of training names.
LayerRecipe nvfp4(std::string name, std::string meaning, const std::string& values) {
  const OperandRule value = rule(Format::e2m1, {1, 16}, values);
  const OperandRule weight = rule(Format::e2m1, {16, 16}, values);
  OperandRule gradient = rule(Format::e2m1, {1, 16}, "nvfp4_te");
  gradient.stochastic = true;
  OperandRule value_column = value;
  OperandRule gradient_column = gradient;
  value_column.rotates = gradient_column.rotates = kRotationSize;
  return make(std::move(name), std::move(meaning), {value, weight, gradient, value_column, gradient_column},
              "sm90_bf16+decode");
}

// Quartet II (arXiv 2601.22813, its repository at 8776a90): Four Over Six in 1x16 in the forward pass, and both
// operands of every GEMM of the backward pass rotated in groups of 128 and quantized by MS-EDEN. Weights and X are
// quantized again from what the forward pass made of them. A' is not: it is A times the route's weight, which no GEMM
// reads.
LayerRecipe quartet2() {
  const OperandRule forward = rule(Format::e2m1, {1, 16}, "nvfp4_46");
  OperandRule backward = rule(Format::e2m1, {1, 16}, std::string(kMsEdenScales));
  backward.rotates = 128, backward.random_signs = backward.stochastic = true;
  LayerRecipe r = make("quartet2", "Quartet II: Four Over Six in the forward pass, MS-EDEN in the backward pass",
                       {forward, forward, backward, backward, backward}, "sm90_bf16+decode");
  for (const LayerGemm gemm : {LayerGemm::d_down, LayerGemm::d_up}) {
    GemmRule& of = r.gemms[static_cast<std::size_t>(gemm)];
    of.b = backward;
    of.b.source = OperandSource::requantized;
  }
  r.gemms[static_cast<std::size_t>(LayerGemm::d_w1)].a.source = OperandSource::requantized;
  return r;
}

bool is_forward(LayerGemm gemm) { return gemm == LayerGemm::up || gemm == LayerGemm::down; }

// The recipe in one of the passes, BF16 in the other.
LayerRecipe in_one_pass(LayerRecipe r, bool forward) {
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    if (is_forward(gemm.value) != forward) r.gemms[static_cast<std::size_t>(gemm.value)] = {{}, {}, "sm90_bf16"};
  }
  return r;
}

// amax is raised to 1e-4, so E2M1's scale is 2^-15 or more, and what is below 2^-17 = 7.6e-6 becomes zero: nearly all
// gradients of a batch. (E4M3 under the same clamp goes down to 2^-32, and still holds most of them.)
LayerRecipe broken() {
  return mxfp8("broken", "a negative control: mxfp8 with gradients in E2M1 under a clamp that makes them zeros",
               "rceil", Format::e2m1, "deepgemm_host");
}

std::vector<LayerRecipe> make_layer_recipes() {
  return {
      make("bf16", "nothing is quantized", {}, "sm90_bf16"),
      mxfp8("mxfp8", "blocks of 32 along k, E4M3, scales rounded up", "rceil", Format::e4m3, "rceil"),
      mxfp8("mxfp8_floor", "mxfp8 with the scales of OCP MX 1.0: the largest values saturate", "floor", Format::e4m3,
            "floor"),
      mxfp8("mxfp8_e5m2_grad", "mxfp8 with the gradients dO and dH in E5M2", "rceil", Format::e5m2, "rceil"),
      dsv3("dsv3", "activations and gradients in 1x128, weights in 128x128, FP32 scales", "fp32", {1, 128}),
      dsv3_pow2(),
      dsv3("dsv3_128x128_grad", "dsv3 with the gradients dO and dH in 128x128: reported to diverge", "fp32",
           {128, 128}),
      fp8_tensor(),
      nvfp4("nvfp4", "NVFP4: weights in 16x16, weights' gradients rotated, gradients rounded stochastically",
            "nvfp4_te"),
      in_one_pass(nvfp4("nvfp4_forward", "nvfp4 in the forward pass, BF16 in the backward pass", "nvfp4_te"), true),
      in_one_pass(nvfp4("nvfp4_backward", "BF16 in the forward pass, nvfp4 in the backward pass", "nvfp4_te"), false),
      nvfp4("nvfp4_46", "nvfp4 with Four Over Six for activations and weights", "nvfp4_46"),
      quartet2(),
      broken(),
  };
}

}  // namespace

Format scale_format_of(const OperandRule& rule) {
  return is_ms_eden(rule) ? Format::e4m3 : any_recipe_named(rule.scales).scale_format();
}

bool has_two_levels(const OperandRule& rule) {
  return is_ms_eden(rule) || any_recipe_named(rule.scales).has_two_levels();
}

void check_scales(const std::string& name) {
  if (name != kMsEdenScales) any_recipe_named(name);
}

bool has_scale_of_tensor(const OperandRule& rule) {
  return rule.quantized() && (rule.of_whole_tensor() || has_two_levels(rule));
}

bool is_stochastic(const LayerRecipe& recipe) {
  const auto draws = [](const OperandRule& rule) {
    return rule.stochastic || (rule.rotates != 0 && rule.random_signs);
  };
  return std::any_of(recipe.gemms.begin(), recipe.gemms.end(),
                     [&](const GemmRule& gemm) { return draws(gemm.a) || draws(gemm.b); });
}

std::span<const LayerRecipe> all_layer_recipes() {
  static const std::vector<LayerRecipe> all = make_layer_recipes();
  return all;
}

const LayerRecipe& layer_recipe_named(std::string_view name) {
  return entry_named(all_layer_recipes(), "layer recipe", name);
}

// True if a recipe can be: each GEMM as a matmul of one block, which the matmul's own checks judge, and what is the
// layer's own: where an operand comes from.

namespace {

// Blocks along k, of one row, in groups of the rotation.
void check_ms_eden(const OperandRule& rule) {
  if (rule.format != Format::e2m1 || rule.block != BlockShape{1, 16})
    refuse_usage("scales ms_eden of " + std::string(spec(rule.format).name) + " in blocks of " + to_text(rule.block) +
                 ": they are of e2m1 in blocks of 1x16");
}

void check_rule(const OperandRule& rule) {
  if (!rule.quantized()) {
    if (rule.source == OperandSource::requantized) refuse_usage("bf16 is not quantized, so not requantized either");
    return;
  }
  check_quantized_format(rule.format);
  if (is_ms_eden(rule)) return check_ms_eden(rule);
  const Recipe scales = any_recipe_named(rule.scales);
  if (scales.rounding == Rounding::stochastic) refuse_usage("recipe " + scales.name + " rounds stochastically");
  if (rule.stochastic && scales.two_level.choice != BlockChoice::none)
    refuse_usage("recipe " + scales.name + " chooses between two scales by their errors: no stochastic rounding");
  const BlockShape block = rule.block;
  if (!rule.of_whole_tensor() && (block.rows < 1 || block.cols < 1)) {
    refuse_usage("a block of " + to_text(block) +
                 ": 1 or more rows and columns are needed, or 0x0 for the whole tensor");
  }
}

// The GEMM that has the tensor as operand A, in rows, whose quantization can be quantized again; empty: none.
std::string_view requantized_from(std::string_view tensor) {
  for (const LayerGemm gemm : {LayerGemm::up, LayerGemm::d_down, LayerGemm::d_up}) {
    if (spec(gemm).a == tensor) return spec(gemm).name;
  }
  return {};
}

// The GEMM of the forward pass whose weights B of this one are, in the other order; empty: none.
std::string_view weights_requantized_from(LayerGemm gemm) {
  if (gemm == LayerGemm::d_down) return spec(LayerGemm::down).name;
  return gemm == LayerGemm::d_up ? spec(LayerGemm::up).name : std::string_view();
}

void check_requantized(const LayerRecipe& recipe, LayerGemm gemm, const OperandRule& rule, std::string_view tensor) {
  if (!rule.quantized() || rule.source == OperandSource::values) return;
  const bool along_tokens = gemm == LayerGemm::d_w2 || gemm == LayerGemm::d_w1;
  const bool is_weight = !along_tokens && tensor.starts_with("W");
  const std::string_view from = along_tokens ? requantized_from(tensor)
                                : is_weight  ? weights_requantized_from(gemm)
                                             : std::string_view();
  if (from.empty()) {
    refuse_usage(
        "is requantized: only X, dO and dH of d_w2 and d_w1 are quantized for another GEMM before, and the weights of "
        "d_down and d_up");
  }
  const auto at = std::find_if(kLayerGemms.begin(), kLayerGemms.end(), [&](const auto& g) { return g.name == from; });
  const OperandRule& before = is_weight ? recipe.gemm(at->value).b : recipe.gemm(at->value).a;
  if (!before.quantized()) refuse_usage("is requantized, but " + std::string(from) + " does not quantize it");
  if (before.rotates != 0) refuse_usage("is requantized, but " + std::string(from) + " rotates it");
}

void check_source(const LayerRecipe& recipe, LayerGemm gemm, const OperandRule& rule, std::string_view tensor) {
  check_requantized(recipe, gemm, rule, tensor);
  if (gemm == LayerGemm::d_w1 && tensor == "X" && recipe.keeps_quantized_x && rule.source == OperandSource::values)
    refuse_usage("is made from values, but of X only the quantized one is kept: source requantized is needed");
}

// Both operands of a GEMM alike, or neither: the rotations cancel in the product.
void check_rotation(const GemmRule& rule) {
  for (const OperandRule* of : {&rule.a, &rule.b}) {
    if (of->rotates == 0 && of->random_signs) refuse_usage("signs are of a rotation, and the operand is not rotated");
  }
  if (rule.a.rotates != rule.b.rotates || rule.a.random_signs != rule.b.random_signs) {
    refuse_usage(rule.a.rotates == 0 || rule.b.rotates == 0
                     ? "one operand is rotated and the other is not: the product is lost"
                     : "the operands are rotated in different groups or signs: the product is lost");
  }
  for (const OperandRule* of : {&rule.a, &rule.b}) {
    if (of->rotates == 0) continue;
    if (std::find(kHadamardSizes.begin(), kHadamardSizes.end(), of->rotates) == kHadamardSizes.end())
      refuse_usage("is rotated in groups of " + std::to_string(of->rotates) + ": 16, 32, 64 and 128 there are");
    if (!of->random_signs && of->rotates != kRotationSize)
      refuse_usage("is rotated in groups of " + std::to_string(of->rotates) + " without random signs: only of 16 are");
    if (!of->quantized() || of->of_whole_tensor()) refuse_usage("a rotated operand is quantized, in blocks");
  }
}

// A kept tensor is codes and one tensor of scales, which no words have rounded.
void check_kept_rule(const OperandRule& rule) {
  if (!rule.quantized()) return;
  if (has_two_levels(rule)) refuse_usage("two levels of scales: what is kept has one");
  if (rule.stochastic || rule.rotates != 0) refuse_usage("it is kept as it is, rounded to nearest and not rotated");
}

Matmul smallest(const GemmRule& rule) {
  Matmul m;
  m.contract = parse_matmul_contract(rule.contract);
  m.a = operand_of(rule.a, m.contract);
  m.b = operand_of(rule.b, m.contract);
  return m;
}

// Runs what refuses, and says of what the recipe it does.
template <class Check>
void saying(const std::string& where, Check check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
}

}  // namespace

void check(const LayerRecipe& recipe) {
  const std::string name = "layer recipe '" + recipe.name + "', ";
  for (const LayerGemmSpec& gemm : kLayerGemms) {
    const GemmRule& rule = recipe.gemm(gemm.value);
    const auto operand = [&](const OperandRule& of, std::string_view tensor) {
      saying(name + "GEMM " + std::string(gemm.name) + ", operand " + std::string(tensor), [&] {
        check_rule(of);
        check_source(recipe, gemm.value, of, tensor);
      });
    };
    operand(rule.a, gemm.a);
    operand(rule.b, gemm.b);
    saying(name + "GEMM " + std::string(gemm.name), [&] {
      check_rotation(rule);
      check_matmul(smallest(rule));
    });
  }
  if (recipe.keeps_quantized_x) {
    if (!recipe.gemm(LayerGemm::up).a.quantized())
      refuse_usage(name + "X: it is kept quantized, but up does not quantize it");
    saying(name + "X kept", [&] { check_kept_rule(recipe.gemm(LayerGemm::up).a); });
  }
  saying(name + "H kept", [&] {
    check_rule(recipe.kept_h);
    check_kept_rule(recipe.kept_h);
    if (recipe.kept_h.source != OperandSource::values) refuse_usage("it is made from H's values, not requantized");
    if (recipe.kept_h.quantized() && recipe.kept_h.block.rows > 1)
      refuse_usage("a block of " + to_text(recipe.kept_h.block) + ": it has one row, or is the whole tensor");
  });
}

}  // namespace mxcheck
