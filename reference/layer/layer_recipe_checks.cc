// Whether a recipe can be: each GEMM as a matmul of one block, which the matmul's own checks judge, and what is the
// layer's own: where an operand comes from.

#include <algorithm>
#include <string>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "reference/layer/layer_recipe.h"
#include "reference/layer/operands.h"
#include "reference/matmul/checks.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void check_rule(const OperandRule& rule) {
  if (!rule.quantized()) {
    if (rule.source == OperandSource::requantized) refuse("bf16 is not quantized, so not requantized either");
    return;
  }
  check_quantized_format(rule.format);
  const Recipe scales = recipe_named(rule.scales);
  if (scales.rounding == Rounding::stochastic) refuse("recipe " + scales.name + " rounds stochastically");
  const BlockShape block = rule.block;
  if (!rule.of_whole_tensor() && (block.rows < 1 || block.cols < 1)) {
    refuse("a block of " + to_text(block) + ": 1 or more rows and columns are needed, or 0x0 for the whole tensor");
  }
}

// Of which GEMM the operand is, as rows, whose quantization can be quantized again.
std::string_view requantized_from(std::string_view tensor) {
  for (const LayerGemm gemm : {LayerGemm::up, LayerGemm::d_down, LayerGemm::d_up}) {
    if (spec(gemm).a == tensor) return spec(gemm).name;
  }
  return {};
}

void check_source(const LayerRecipe& recipe, LayerGemm gemm, const OperandRule& rule, std::string_view tensor) {
  const bool along_tokens = gemm == LayerGemm::d_w2 || gemm == LayerGemm::d_w1;
  if (rule.quantized() && rule.source == OperandSource::requantized) {
    const std::string_view from = along_tokens ? requantized_from(tensor) : std::string_view();
    if (from.empty())
      refuse("is requantized: only X, dO and dH of d_w2 and d_w1 are quantized for another GEMM before");
    const auto at = std::find_if(kLayerGemms.begin(), kLayerGemms.end(), [&](const auto& g) { return g.name == from; });
    if (!recipe.gemm(at->value).a.quantized())
      refuse("is requantized, but " + std::string(from) + " does not quantize it");
  }
  if (gemm == LayerGemm::d_w1 && tensor == "X" && recipe.keeps_quantized_x && rule.source == OperandSource::values)
    refuse("is made from values, but of X only the quantized one is kept: source requantized is needed");
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
    saying(name + "GEMM " + std::string(gemm.name), [&] { check_matmul(smallest(rule)); });
  }
  if (recipe.keeps_quantized_x && !recipe.gemm(LayerGemm::up).a.quantized())
    refuse(name + "X: it is kept quantized, but up does not quantize it");
  saying(name + "H kept", [&] {
    check_rule(recipe.kept_h);
    if (recipe.kept_h.source != OperandSource::values) refuse("it is made from H's values, not requantized");
    if (recipe.kept_h.quantized() && recipe.kept_h.block.rows > 1)
      refuse("a block of " + to_text(recipe.kept_h.block) + ": it has one row, or is the whole tensor");
  });
}

}  // namespace mxcheck
