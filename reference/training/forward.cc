// The forward pass: docs/training.md, "Forward", line by line.

#include <cmath>
#include <utility>

#include "reference/common/parallel.h"
#include "reference/training/digest.h"
#include "reference/training/linear.h"
#include "reference/training/observe.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"

namespace mxcheck {
namespace {

constexpr std::size_t kPerLayer = 7;

AttentionShape attention_shape(const PassSetting& s) {
  const ModelShape& m = s.config.model;
  return {s.sequences, m.length, m.heads, m.head_width()};
}

// x + y, y in BF16.
std::vector<float> plus(std::span<const float> x, std::span<const std::uint16_t> y) {
  std::vector<float> sum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = x[i] + widen(y[i]);
  return sum;
}

bool all_finite(std::span<const float> values) {
  for (const float v : values) {
    if (!std::isfinite(v)) return false;
  }
  return true;
}

// Token choice, what a rounding rule makes of it, and the balance loss, which counts token choice.
void route_tokens(const PassSetting& s, std::int64_t layer, LayerPass& pass) {
  const ModelShape& m = s.config.model;
  const MatrixView logits{Format::fp32, std::as_bytes(std::span(pass.logits)).data(), s.tokens(), m.experts, m.experts};
  const Router router{.variant = &router_variant_named("topk-softmax"), .top_k = m.top_k};
  Routes choice = route(router, logits, s.threads);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(m.experts));
  for (const std::int32_t expert : choice.experts) ++counts[static_cast<std::size_t>(expert)];
  pass.balance = load_balancing_loss(logits, counts, s.config.balance, s.threads);
  if (s.rounding == TokenRoundingRule::none) {
    pass.routes = layer_routes(choice, m.experts);
  } else {
    const TokenRounding rounding{.rule = s.rounding,
                                 .tile = s.config.tile,
                                 .seed = s.config.seed,
                                 .layer = static_cast<std::uint32_t>(layer),
                                 .step = s.step};
    pass.routes = layer_routes(round_tokens(router, rounding, logits, s.threads));
  }
  pass.chosen = std::move(choice.experts);
}

// The layer's output, N x d.
std::vector<std::uint16_t> mixture(const PassSetting& s, const PassWeights& w, const LayerParameters& p,
                                   LayerPass& pass) {
  const ModelShape& m = s.config.model;
  const Layer layer{
      {s.tokens(), m.width, m.inner, m.experts}, &s.recipe, GateUp::halves, w.bf16[p.w1], w.bf16[p.w2], s.threads};
  LayerForward f = layer_forward(layer, pass.moe_norm.y, pass.routes);
  if (s.observe) {
    pass.observation.expert_loads = expert_loads(pass.routes);
    forward_facts(layer, pass.moe_norm.y, pass.routes, f, pass.observation.operands);
  }
  pass.kept = std::move(f.kept);
  return std::move(f.o);
}

// The residual stream after the layer; false where the router's logits cannot be routed.
bool layer_pass(const PassSetting& s, const RotaryTable& table, const PassWeights& w, std::int64_t layer,
                LayerPass& pass, std::vector<float>& x) {
  const ModelShape& m = s.config.model;
  const LayerParameters p = parameters_of_layer(layer);
  pass.x = std::move(x);
  pass.attention_norm = norm(pass.x, w.masters[p.attention_norm], s.threads);
  const std::vector<std::uint16_t> qkv =
      linear_bf16({s.tokens(), m.width, 3 * m.width}, pass.attention_norm.y, w.bf16[p.qkv], s.threads);
  pass.attention = attention(attention_shape(s), table, qkv, s.threads);
  pass.middle =
      plus(pass.x, linear_bf16({s.tokens(), m.width, m.width}, pass.attention.out, w.bf16[p.attention_out], s.threads));
  pass.moe_norm = norm(pass.middle, w.masters[p.moe_norm], s.threads);
  pass.logits = linear({s.tokens(), m.width, m.experts}, pass.moe_norm.y, w.bf16[p.router], s.threads);
  if (!all_finite(pass.logits)) return false;
  route_tokens(s, layer, pass);
  x = plus(pass.middle, mixture(s, w, p, pass));
  pass.observation.output_digest = tensor_digest(x, s.threads);
  return true;
}

}  // namespace

LayerParameters parameters_of_layer(std::int64_t layer) {
  const std::size_t first = 1 + static_cast<std::size_t>(layer) * kPerLayer;
  return {first, first + 1, first + 2, first + 3, first + 4, first + 5, first + 6};
}
std::size_t final_norm_of(const ModelShape& model) { return 1 + static_cast<std::size_t>(model.layers) * kPerLayer; }
std::size_t output_of(const ModelShape& model) { return final_norm_of(model) + 1; }

PassWeights pass_weights(const ModelShape& model, std::span<const std::vector<float>> masters, int threads) {
  const std::vector<ParameterSpec> specs = parameters_of(model);
  require(specs.size() == masters.size(), "weights are of " + std::to_string(masters.size()) + " parameters; " +
                                              std::to_string(specs.size()) + " are needed");
  PassWeights w{masters, std::vector<std::vector<std::uint16_t>>(specs.size())};
  for (std::size_t p = 0; p < specs.size(); ++p) {
    require(std::ssize(masters[p]) == specs[p].size(), specs[p].name + " has " + std::to_string(masters[p].size()) +
                                                           " elements; " + std::to_string(specs[p].size()) +
                                                           " are needed");
    if (specs[p].kind != ParameterKind::gain) w.bf16[p] = rounded_to_bf16(masters[p], threads);
  }
  return w;
}

ForwardPass forward(const PassSetting& s, const RotaryTable& table, const PassWeights& w,
                    std::span<const std::uint8_t> tokens) {
  const ModelShape& m = s.config.model;
  ForwardPass pass;
  std::vector<float> x = embed(w.bf16[kEmbedding], tokens, m.width);
  for (std::int64_t l = 0; l < m.layers; ++l) {
    LayerPass& layer = pass.layers.emplace_back();
    if (!layer_pass(s, table, w, l, layer, x)) {
      pass.layers.pop_back();
      RouterOverflow overflow;
      overflow.layers = std::move(pass.layers);
      throw overflow;
    }
  }
  pass.x = std::move(x);
  pass.final_norm = norm(pass.x, w.masters[final_norm_of(m)], s.threads);
  pass.logits = linear({s.tokens(), m.width, kVocabulary}, pass.final_norm.y, w.bf16[output_of(m)], s.threads);
  return pass;
}

}  // namespace mxcheck
