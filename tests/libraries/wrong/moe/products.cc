// Faults of products, of operands along tokens, and of the sum over a token's rows.

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/libraries/wrong/moe/faulty.h"

namespace mxcheck::faults {
namespace {

// Columns [begin, end) of an operand alone.
LayerOperand columns_alone(LayerOperand x, std::int64_t begin, std::int64_t end) {
  const auto clear = [&](auto& codes) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::int64_t col = static_cast<std::int64_t>(i) % x.cols;
      if (col < begin || col >= end) codes[i] = {};
    }
  };
  clear(x.values), clear(x.quantized.codes.data);
  return x;
}

// Exact in BF16 for formats of at most eight bits under powers of two.
LayerOperand decoded(const LayerOperand& x, std::span<const std::int64_t> offsets) {
  LayerOperand o;
  o.rows = x.rows, o.cols = x.cols, o.by_token = x.by_token;
  for (const float v : values_of(x, offsets, 0)) o.values.push_back(layer_bf16(v));
  return o;
}

bool decodes(const Run& run, LayerGemm gemm) { return run.rule(gemm).contract.starts_with("sm90_bf16"); }

// The product of operands in BF16, groups where other routes say.
void product_of_values(const Run& run, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b,
                       const LayerRoutes& routes, void* out) {
  Layer layer = run.layer;
  layer.recipe = &layer_recipe_named("bf16");
  const Run other(layer, routes, "dO", static_cast<std::size_t>(run.tokens * run.d));
  other.multiply_along_tokens(gemm, decoded(a, run.routes.offsets), decoded(b, run.routes.offsets), out);
}

// Each expert has the first row of the next, and not its own first.
LayerRoutes one_row_on(const LayerRoutes& routes) {
  LayerRoutes r = routes;
  for (std::size_t e = 1; e + 1 < r.offsets.size(); ++e) r.offsets[e] = std::min(r.offsets[e] + 1, r.offsets.back());
  return r;
}

// Rows past the last multiple of 64 of each expert that has as many.
void clear_tails(const Run& run, std::int64_t unit, std::int64_t least, LayerOperand& x) {
  const auto& offsets = run.routes.offsets;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const std::int64_t rows = offsets[e + 1] - offsets[e];
    if (rows < least) continue;
    for (std::int64_t i = (offsets[e] + rows / unit * unit) * x.cols; i < offsets[e + 1] * x.cols; ++i) {
      if (x.is_quantized) x.quantized.codes.set_code(static_cast<std::size_t>(i), 0);
      if (!x.is_quantized) x.values[static_cast<std::size_t>(i)] = 0;
    }
  }
}

// Rows of each expert that dW1 does not sum over.
void clear_rows_beyond_those_counted(const Run& run, LayerOperand& x) {
  const auto& offsets = run.routes.offsets;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    std::int64_t counted = faulty_count(offsets[e + 1] - offsets[e]);
    if (has("rows_beyond_128_left_out_in_dw1")) counted = std::min<std::int64_t>(counted, 128);
    for (std::int64_t i = (offsets[e] + counted) * x.cols; i < offsets[e + 1] * x.cols; ++i) {
      if (x.is_quantized) x.quantized.codes.set_code(static_cast<std::size_t>(i), 0);
      if (!x.is_quantized) x.values[static_cast<std::size_t>(i)] = 0;
    }
  }
}

}  // namespace

void faulty_product(const Run& run, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out) {
  if (has("offsets_read_as_16_bits") && decodes(run, gemm)) {
    const LayerRoutes routes = faulty_offsets(run.routes);
    const Run other(run.layer, routes, "X", static_cast<std::size_t>(run.tokens * run.d));
    return other.multiply(gemm, a, b, out);
  }
  if (has("alpha_of_w2_left_out_in_down") && gemm == LayerGemm::down) {
    LayerOperand without = b;
    without.quantized.levels.resize(1);
    return run.multiply(gemm, a, without, out);
  }
  if (!has("k_of_d_down_split_in_two") || gemm != LayerGemm::d_down || a.cols < 2) return run.multiply(gemm, a, b, out);
  std::vector<float> second(static_cast<std::size_t>(run.rows * run.n));
  run.multiply(gemm, columns_alone(a, 0, a.cols / 2), b, out);
  run.multiply(gemm, columns_alone(a, a.cols / 2, a.cols), b, second.data());
  auto* sum = static_cast<float*>(out);
  for (std::size_t i = 0; i < second.size(); ++i) sum[i] = layer_fp32(sum[i] + second[i]);
}

void faulty_product_along_tokens(const Run& run, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b,
                                 void* out) {
  LayerOperand left = a;
  if (has("tail_of_32_left_out_in_dw2") && gemm == LayerGemm::d_w2) clear_tails(run, 32, 32, left);
  if (has("tail_of_128_left_out_in_dw1") && gemm == LayerGemm::d_w1) clear_tails(run, 128, 128, left);
  if (gemm == LayerGemm::d_w1) clear_rows_beyond_those_counted(run, left);
  const bool shifts = (has("next_expert_s_row_in_dw1") && gemm == LayerGemm::d_w1) ||
                      (has("next_expert_s_row_in_dw2") && gemm == LayerGemm::d_w2);
  if (shifts && decodes(run, gemm) && !has_scale_of_tensor(run.rule(gemm).a))
    return product_of_values(run, gemm, left, b, one_row_on(run.routes), out);
  run.multiply_along_tokens(gemm, left, b, out);
}

LayerOperand faulty_columns(const Run& run, LayerGemm gemm, bool is_a, const TokenRows& x) {
  const OperandRule& rule = is_a ? run.rule(gemm).a : run.rule(gemm).b;
  const bool crosses = (has("blocks_along_tokens_cross_experts") && gemm == LayerGemm::d_w2 && is_a) ||
                       (has("blocks_of_dh_along_tokens_cross_experts") && gemm == LayerGemm::d_w1 && !is_a);
  const bool by_rows = (has("scaled_a_along_tokens_has_scales_of_rows") && gemm == LayerGemm::d_w2 && is_a) ||
                       (has("dh_along_tokens_has_scales_of_rows") && gemm == LayerGemm::d_w1 && !is_a);
  const bool applies = decodes(run, gemm) && rule.quantized() && !has_scale_of_tensor(rule) && !x.by_token;
  if (applies && (crosses || by_rows)) {
    // The operand is made of the values that the wrong codes stand for: right codes of them, block by block.
    const std::vector<std::int64_t> all{0, run.rows};
    const OperandRule along_rows{rule.format, {1, 32}, rule.scales};
    const LayerOperand wrong =
        by_rows ? row_operand(along_rows, x, run.routed(), 0) : column_operand(rule, x, {run.routes.row_token, all}, 0);
    const LayerOperand values = decoded(wrong, all);
    return column_operand(rule, {view(values.values, run.rows, x.values.cols), false}, run.routed(), 0);
  }
  return run.column(gemm, !is_a, x);
}

Words faulty_aggregate(const Run& run, const Words& y, bool weighted) {
  const LayerRoutes routes = faulty_routes(run.routes, !weighted);
  Words out(static_cast<std::size_t>(run.tokens * run.d));
  for (std::int64_t t = 0; t < run.tokens; ++t) {
    for (std::int64_t j = 0; j < run.d; ++j) {
      float acc = 0;
      double exact = 0;
      const auto at = static_cast<std::size_t>(t);
      const std::int64_t count = routes.token_offsets[at + 1] - routes.token_offsets[at];
      const std::int64_t first = faulty_first_slot(routes.token_offsets[at]);
      for (std::int64_t slot = first; slot < first + count; ++slot) {
        const std::int32_t row = routes.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0) continue;
        const auto r = static_cast<std::size_t>(row);
        const float value = fp32_of(y[static_cast<std::size_t>(row * run.d + j)]);
        float s = weighted || has("dx_weighted_again") ? routes.row_weight[r] : 1;
        if (has("weight_applied_twice_in_o") && weighted) s *= s;
        if (has("o_is_not_weighted") && weighted) s = 1;
        if (has("weight_rounded_to_bf16")) s = fp32_of(layer_bf16(s));
        acc = has("product_and_sum_of_o_rounded_apart") ? acc + s * value : std::fma(s, value, acc);
        if (has("o_summed_in_bf16")) acc = fp32_of(layer_bf16(acc));
        exact += static_cast<double>(s) * static_cast<double>(value);
      }
      out[static_cast<std::size_t>(t * run.d + j)] =
          layer_bf16(has("o_summed_in_fp64") ? static_cast<float>(exact) : acc);
    }
  }
  return faulty_elements(std::move(out));
}

void leave_out_tokens_without_slots(const Run& run, FaultyAnswer& answer) {
  for (std::int64_t t = 0; t < run.tokens && has("token_without_slots_unwritten"); ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (run.routes.token_offsets[at] == run.routes.token_offsets[at + 1])
      answer.unwritten.push_back({0, t * run.d * 2, (t + 1) * run.d * 2});
  }
}

}  // namespace mxcheck::faults
