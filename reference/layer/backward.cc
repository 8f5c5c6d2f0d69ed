// layer_backward.

#include <string>

#include "numerics/error.h"
#include "reference/layer/aggregate.h"
#include "reference/layer/layer.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

// What an operand along tokens is made of: the values, or what the rule's other quantization left of them.
struct Source {
  std::vector<float> values;
  TokenRows rows;
};
Source source_of(const Run& run, const OperandRule& rule, const TokenRows& values, const LayerOperand& quantized) {
  Source s{{}, values};
  if (rule.source == OperandSource::values) return s;
  s.values = values_of(quantized, run.routes.offsets, run.layer.threads);
  s.rows = {view(s.values, quantized.rows, quantized.cols), quantized.by_token};
  return s;
}

// A, A', dH and dS from P and the H that was kept.
void differentiate_swiglu(const Run& run, const LayerKept& kept, LayerBackward& b) {
  const std::int64_t n = run.n;
  std::vector<float> h = values_of(kept.h, run.routes.offsets, run.layer.threads);
  b.a = sized<std::uint16_t>(run.rows, n, "A");
  b.scaled_a = sized<std::uint16_t>(run.rows, n, "A'");
  b.dh = sized<std::uint16_t>(run.rows, 2 * n, "dH");
  b.ds = sized<float>(run.rows, 1, "dS");
  run.each_row(run.rows, n * 8, [&](std::int64_t r) {  // exp costs as much as some eight elements
    const auto row = static_cast<std::size_t>(r);
    b.ds[row] =
        swiglu_row_gradient(row_of(h, r, 2 * n), run.layer.gate_up, row_of(b.p, r, n), run.routes.row_weight[row],
                            {row_of(b.a, r, n), row_of(b.scaled_a, r, n), row_of(b.dh, r, 2 * n)});
  });
}

// X along tokens for dW1: what was kept, or made of it.
LayerOperand x_along_tokens(const Run& run, const LayerKept& kept) {
  const int threads = run.layer.threads;
  const OperandRule& rule = run.rule(LayerGemm::d_w1).a;
  const TokenRows values{view(kept.x.values, run.tokens, run.d), true};
  if (rule.source == OperandSource::values) return column_operand(rule, values, run.routed(), threads);
  const LayerOperand again =
      kept.x.is_quantized ? LayerOperand() : row_operand(run.rule(LayerGemm::up).a, values, run.routed(), threads);
  const Source s = source_of(run, rule, values, kept.x.is_quantized ? kept.x : again);
  return column_operand(rule, s.rows, run.routed(), threads);
}

void check_kept(const Run& run, const LayerKept& kept) {
  const auto check_one = [](const char* what, const LayerOperand& x, bool quantized, std::int64_t rows,
                            std::int64_t cols) {
    if (x.is_quantized == quantized && x.rows == rows && x.cols == cols) return;
    throw Error(ErrorKind::usage, std::string(what) + " as it was kept is " + std::to_string(x.rows) + " x " +
                                      std::to_string(x.cols) + (x.is_quantized ? " codes" : " BF16 values") +
                                      "; the recipe and the routes need " + std::to_string(rows) + " x " +
                                      std::to_string(cols) + (quantized ? " codes" : " BF16 values"));
  };
  const LayerRecipe& recipe = *run.layer.recipe;
  const bool x_by_rows = recipe.keeps_quantized_x && recipe.gemm(LayerGemm::up).a.block.rows > 1;
  check_one("X", kept.x, recipe.keeps_quantized_x, x_by_rows ? run.rows : run.tokens, run.d);
  check_one("H", kept.h, recipe.kept_h.quantized(), run.rows, 2 * run.n);
}

}  // namespace

LayerBackward layer_backward(const Layer& layer, const LayerKept& kept, std::span<const std::uint16_t> d_o,
                             const LayerRoutes& routes) {
  const Run run(layer, routes, "dO", d_o.size());
  check_kept(run, kept);
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  const int threads = layer.threads;
  LayerBackward b;
  const TokenRows gradient{view(d_o, run.tokens, d), true};
  b.d_down_a = row_operand(run.rule(LayerGemm::d_down).a, gradient, run.routed(), threads);
  b.d_down_b = weight_operand(run.rule(LayerGemm::d_down).b, view(layer.w2, run.experts * n, d), run.experts, threads);
  b.p = sized<float>(run.rows, n, "P");
  run.multiply(LayerGemm::d_down, b.d_down_a, b.d_down_b, b.p.data());

  differentiate_swiglu(run, kept, b);

  const TokenRows scaled_a{view(b.scaled_a, run.rows, n), false};
  b.d_w2_a = column_operand(run.rule(LayerGemm::d_w2).a, scaled_a, run.routed(), threads);
  const Source d_o_source = source_of(run, run.rule(LayerGemm::d_w2).b, gradient, b.d_down_a);
  b.d_w2_b = column_operand(run.rule(LayerGemm::d_w2).b, d_o_source.rows, run.routed(), threads);
  b.dw2 = sized<float>(run.experts, n * d, "dW2");
  run.multiply_along_tokens(LayerGemm::d_w2, b.d_w2_a, b.d_w2_b, b.dw2.data());

  const TokenRows dh{view(b.dh, run.rows, 2 * n), false};
  b.d_up_a = row_operand(run.rule(LayerGemm::d_up).a, dh, run.routed(), threads);
  b.d_up_b = weight_operand(run.rule(LayerGemm::d_up).b, view(layer.w1, run.experts * d, 2 * n), run.experts, threads);
  b.dx_rows = sized<std::uint16_t>(run.rows, d, "dX~");
  run.multiply(LayerGemm::d_up, b.d_up_a, b.d_up_b, b.dx_rows.data());

  b.d_w1_a = x_along_tokens(run, kept);
  const Source dh_source = source_of(run, run.rule(LayerGemm::d_w1).b, dh, b.d_up_a);
  b.d_w1_b = column_operand(run.rule(LayerGemm::d_w1).b, dh_source.rows, run.routed(), threads);
  b.dw1 = sized<float>(run.experts, 2 * n * d, "dW1");
  run.multiply_along_tokens(LayerGemm::d_w1, b.d_w1_a, b.d_w1_b, b.dw1.data());

  b.dx = aggregate({b.dx_rows, run.rows, d, {}}, run.slots(), threads);
  return b;
}

}  // namespace mxcheck
