#include "reference/layer/layer.h"

#include "reference/layer/aggregate.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

LayerKept keep(const Run& run, std::span<const std::uint16_t> x, const LayerForward& f) {
  const LayerRecipe& recipe = *run.layer.recipe;
  const TokenRows tokens{view(x, run.tokens, run.d), true};
  const TokenRows h{view(f.h, run.rows, 2 * run.n), false};
  return {recipe.keeps_quantized_x ? f.up_a : row_operand({}, tokens, run.routed(), run.layer.threads),
          row_operand(recipe.kept_h, h, run.routed(), run.layer.threads)};
}

}  // namespace

std::int64_t kept_bytes(const LayerKept& kept) {
  std::int64_t bytes = 0;
  for (const LayerOperand* x : {&kept.x, &kept.h}) {
    const Quantized& q = x->quantized;
    bytes += std::ssize(x->values) * 2 + std::ssize(q.codes) + ceil_div(std::ssize(q.codes16) * 3, 2) +
             std::ssize(q.scales) + std::ssize(q.scales_fp32) * 4;
  }
  return bytes;
}

LayerForward layer_forward(const Layer& layer, std::span<const std::uint16_t> x, const LayerRoutes& routes) {
  const Run run(layer, routes, "X", x.size());
  const std::int64_t n = run.n;
  const std::int64_t d = run.d;
  const int threads = layer.threads;
  LayerForward f;
  f.up_a = row_operand(run.rule(LayerGemm::up).a, {view(x, run.tokens, d), true}, run.routed(), threads);
  const Words w1 = run.transposed(layer.w1, d, 2 * n);
  f.up_b = weight_operand(run.rule(LayerGemm::up).b, view(w1, run.experts * 2 * n, d), run.experts, threads);
  f.h = sized<std::uint16_t>(run.rows, 2 * n, "H");
  run.multiply(LayerGemm::up, f.up_a, f.up_b, f.h.data());

  f.a = sized<std::uint16_t>(run.rows, n, "A");
  run.each_row(run.rows, n * 8, [&](std::int64_t r) {
    std::vector<float> h(static_cast<std::size_t>(2 * n));
    view(f.h, run.rows, 2 * n).read_row(r, h);
    swiglu_row(h, layer.gate_up, row_of(f.a, r, n));
  });

  f.down_a = row_operand(run.rule(LayerGemm::down).a, {view(f.a, run.rows, n), false}, run.routed(), threads);
  const Words w2 = run.transposed(layer.w2, n, d);
  f.down_b = weight_operand(run.rule(LayerGemm::down).b, view(w2, run.experts * d, n), run.experts, threads);
  f.y = sized<std::uint16_t>(run.rows, d, "Y");
  run.multiply(LayerGemm::down, f.down_a, f.down_b, f.y.data());

  f.o = aggregate({f.y, run.rows, d, routes.row_weight}, run.slots(), threads);
  f.kept = keep(run, x, f);
  return f;
}

}  // namespace mxcheck
