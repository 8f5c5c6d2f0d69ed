// Causes in the blocks of operands along tokens.

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/diagnosis/layer/cause_tables.h"

namespace mxcheck {
namespace {

using Names = std::vector<std::string>;
const Names kAlongTokens{"d_w2_a_codes", "d_w2_a_scales", "d_w2_b_codes", "d_w2_b_scales", "dW2",
                         "d_w1_a_codes", "d_w1_a_scales", "d_w1_b_codes", "d_w1_b_scales", "dW1"};

// The scale of each element, as blocks of 1x1, for a GEMM whose blocks are not those of its contract.
LayerOperand spread(const LayerOperand& x, std::span<const std::int64_t> starts) {
  LayerOperand out = x;
  Quantized& q = out.quantized;
  q.block = {1, 1}, q.scale_rows = q.rows, q.scale_cols = q.cols;
  q.scales.clear(), q.scales_fp32.clear();
  const Quantized& from = x.quantized;
  const std::int64_t wide = from.block.width(from.cols);
  std::int64_t scale_row = -1;
  for (std::int64_t r = 0; r < q.rows; ++r) {
    while (scale_row + 1 < std::ssize(starts) && starts[static_cast<std::size_t>(scale_row + 1)] <= r) ++scale_row;
    for (std::int64_t c = 0; c < q.cols; ++c) {
      const auto i = static_cast<std::size_t>(scale_row * from.scale_cols + c / wide);
      if (from.scales_fp32.empty()) q.scales.push_back(from.scales[i]);
      if (!from.scales_fp32.empty()) q.scales_fp32.push_back(from.scales_fp32[i]);
    }
  }
  return out;
}

// The values that the operand along tokens is made of, gathered.
LayerOperand gathered_values(const LayerData& d, LayerGemm gemm, Side side) {
  LayerData v = d;
  v.recipe = layer_recipe_named("bf16");
  return operand_from_values(v, gemm, side);
}

// Along tokens, quantized as one run of rows, or in rows.
Bytes other_blocks(const LayerData& d, const std::string& tensor, bool by_rows) {
  const GemmTensor g = *gemm_tensor(tensor);
  LayerData v = d;
  const auto operand = [&](Side side) {
    const OperandRule& rule = rule_of(d.recipe, g.gemm, side);
    if (!rule.quantized() || rule.of_whole_tensor() || rule.source != OperandSource::values)
      throw Error(ErrorKind::usage, "no blocks along tokens");
    const LayerOperand values = gathered_values(d, g.gemm, side);
    const BlockShape block = by_rows ? rule.block : rule.block.transposed();
    LayerOperand x = values;
    x.is_quantized = true;
    x.quantized = quantize(view(values.values, values.rows, values.cols), rule.format, block, recipe_named(rule.scales),
                           {}, d.threads);
    return x;
  };
  if (!g.is_output) {
    const Quantized q = operand(g.side).quantized;
    if (g.is_codes) return q.codes16.empty() ? to_bytes(q.codes) : to_bytes(q.codes16);
    return q.scales_fp32.empty() ? to_bytes(q.scales) : to_bytes(q.scales_fp32);
  }
  const auto spread_operand = [&](Side side) {
    const LayerOperand x = operand(side);
    const std::vector<std::int64_t> starts = block_row_starts(x.rows, x.quantized.block.rows, {});
    rule_of(v.recipe, g.gemm, side).block = {1, 1};
    return spread(x, starts);
  };
  const LayerOperand a = spread_operand(Side::a), b = spread_operand(Side::b);
  return product(v, g.gemm, a, b);
}

}  // namespace

std::vector<LayerCause> block_causes() {
  return {
      {kAlongTokens, "blocks along tokens that do not start again at each expert",
       [](const LayerData& d, const std::string& t) { return other_blocks(d, t, false); }},
      {kAlongTokens, "the scales of blocks along rows in place of blocks along tokens",
       [](const LayerData& d, const std::string& t) { return other_blocks(d, t, true); }},
      {kAlongTokens, "quantized again from what the GEMM along rows made of it, in place of the values",
       [](const LayerData& d, const std::string& t) {
         LayerData v = d;
         const GemmTensor g = *gemm_tensor(t);
         if (g.gemm == LayerGemm::d_w1) rule_of(v.recipe, g.gemm, Side::a).source = OperandSource::requantized;
         rule_of(v.recipe, g.gemm, Side::b).source = OperandSource::requantized;
         check(v.recipe);
         return made_from_values(v, t);
       }},
      {kAlongTokens, "quantized from the values, not from what the GEMM along rows made of it",
       [](const LayerData& d, const std::string& t) {
         LayerData v = d;
         const GemmTensor g = *gemm_tensor(t);
         rule_of(v.recipe, g.gemm, Side::a).source = rule_of(v.recipe, g.gemm, Side::b).source = OperandSource::values;
         v.recipe.keeps_quantized_x = false;
         return made_from_values(v, t);
       }},
  };
}

}  // namespace mxcheck
