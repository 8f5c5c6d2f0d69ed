// The backward pass: docs/training.md, "Backward", line by line.

#include <algorithm>

#include "reference/training/linear.h"
#include "reference/training/observe.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"

namespace mxcheck {
namespace {

void add_to(std::vector<float>& x, std::span<const float> y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Each token's kept experts and the gradients of their weights, as many slots for every token; -1 where there is none.
struct Slots {
  std::int64_t width = 0;
  std::vector<std::int32_t> experts;
  std::vector<float> gradient;
};
Slots padded_slots(const LayerRoutes& routes, std::span<const float> gradient) {
  const std::size_t tokens = routes.token_offsets.size() - 1;
  Slots slots;
  slots.width = 1;
  for (std::size_t t = 0; t < tokens; ++t)
    slots.width = std::max(slots.width, routes.token_offsets[t + 1] - routes.token_offsets[t]);
  const auto width = static_cast<std::size_t>(slots.width);
  slots.experts.assign(tokens * width, -1);
  slots.gradient.assign(tokens * width, 0.0F);
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<std::size_t>(routes.token_offsets[t]);
    const auto last = static_cast<std::size_t>(routes.token_offsets[t + 1]);
    for (std::size_t i = first; i < last; ++i) {
      const std::int64_t row = routes.token_rows[i];
      const auto after = std::upper_bound(routes.offsets.begin(), routes.offsets.end(), row);
      slots.experts[t * width + (i - first)] = static_cast<std::int32_t>(after - routes.offsets.begin() - 1);
      slots.gradient[t * width + (i - first)] = gradient[i];
    }
  }
  return slots;
}

// The gradient of the router's logits in BF16, from that of each row's weight.
std::vector<std::uint16_t> router_gradient(const PassSetting& s, const LayerPass& pass, std::span<const float> ds) {
  const ModelShape& m = s.config.model;
  const MatrixView logits{Format::fp32, std::as_bytes(std::span(pass.logits)).data(), s.tokens(), m.experts, m.experts};
  const bool rounds = s.rounding != TokenRoundingRule::none;
  // After a rounding rule weights are scores over the sum of those that are kept.
  const Router router{.variant = &router_variant_named(rounds ? "softmax-topk-renorm" : "topk-softmax"),
                      .top_k = m.top_k};
  const std::vector<float> by_slot = slot_gradient(pass.routes, ds);
  std::vector<float> gradient;
  if (rounds) {
    const Slots slots = padded_slots(pass.routes, by_slot);
    gradient = route_backward(router, logits, slots.experts, slots.gradient, slots.width, s.threads);
  } else {
    gradient = route_backward(router, logits, pass.chosen, by_slot, m.top_k, s.threads);
  }
  add_to(gradient, pass.balance.gradient);
  return rounded_to_bf16(gradient, s.threads);
}

using Gradients = std::vector<std::vector<float>>;

// The MoE half: takes dx after the layer, leaves dx between attention and it.
void mixture_backward(const PassSetting& s, const PassWeights& w, const LayerParameters& p, LayerPass& pass,
                      std::vector<float>& dx, Gradients& g) {
  const ModelShape& m = s.config.model;
  const std::vector<std::uint16_t> d_o = rounded_to_bf16(dx, s.threads);
  const Layer layer{
      {s.tokens(), m.width, m.inner, m.experts}, &s.recipe, GateUp::halves, w.bf16[p.w1], w.bf16[p.w2], s.threads};
  LayerBackward b = layer_backward(layer, pass.kept, d_o, pass.routes);
  if (s.observe) backward_facts(layer, pass.moe_norm.y, d_o, pass.routes, b, pass.observation.operands);
  g[p.w1] = std::move(b.dw1);
  g[p.w2] = std::move(b.dw2);

  const LinearShape router{s.tokens(), m.width, m.experts};
  const std::vector<std::uint16_t> d_logits = router_gradient(s, pass, b.ds);
  g[p.router] = linear_dw(router, d_logits, pass.moe_norm.y, s.threads);
  std::vector<float> du = linear_dx(router, d_logits, w.bf16[p.router], s.threads);
  for (std::size_t i = 0; i < du.size(); ++i) du[i] = widen(b.dx[i]) + du[i];
  NormGradient norm = norm_backward(du, pass.middle, pass.moe_norm.scale, w.masters[p.moe_norm], s.threads);
  g[p.moe_norm] = std::move(norm.dgain);
  add_to(dx, norm.dx);
}

// The attention half.
void attention_half_backward(const PassSetting& s, const RotaryTable& table, const PassWeights& w,
                             const LayerParameters& p, const LayerPass& pass, std::vector<float>& dx, Gradients& g) {
  const ModelShape& m = s.config.model;
  const LinearShape out{s.tokens(), m.width, m.width};
  const std::vector<std::uint16_t> dy = rounded_to_bf16(dx, s.threads);
  g[p.attention_out] = linear_dw(out, dy, pass.attention.out, s.threads);
  const std::vector<std::uint16_t> d_att = linear_dx_bf16(out, dy, w.bf16[p.attention_out], s.threads);
  const AttentionShape shape{s.sequences, m.length, m.heads, m.head_width()};
  const std::vector<std::uint16_t> d_qkv = attention_backward(shape, table, pass.attention, d_att, s.threads);
  const LinearShape qkv{s.tokens(), m.width, 3 * m.width};
  g[p.qkv] = linear_dw(qkv, d_qkv, pass.attention_norm.y, s.threads);
  const std::vector<float> du = linear_dx(qkv, d_qkv, w.bf16[p.qkv], s.threads);
  NormGradient norm = norm_backward(du, pass.x, pass.attention_norm.scale, w.masters[p.attention_norm], s.threads);
  g[p.attention_norm] = std::move(norm.dgain);
  add_to(dx, norm.dx);
}

}  // namespace

Gradients backward(const PassSetting& s, const RotaryTable& table, const PassWeights& w,
                   std::span<const std::uint8_t> tokens, ForwardPass& pass, std::span<const std::uint16_t> d_logits) {
  const ModelShape& m = s.config.model;
  Gradients g(w.masters.size());
  const LinearShape output{s.tokens(), m.width, kVocabulary};
  g[output_of(m)] = linear_dw(output, d_logits, pass.final_norm.y, s.threads);
  const std::vector<float> dy = linear_dx(output, d_logits, w.bf16[output_of(m)], s.threads);
  NormGradient norm = norm_backward(dy, pass.x, pass.final_norm.scale, w.masters[final_norm_of(m)], s.threads);
  g[final_norm_of(m)] = std::move(norm.dgain);
  std::vector<float> dx = std::move(norm.dx);
  for (std::int64_t l = m.layers; l-- > 0;) {
    LayerPass& layer = pass.layers[static_cast<std::size_t>(l)];
    const LayerParameters p = parameters_of_layer(l);
    mixture_backward(s, w, p, layer, dx, g);
    attention_half_backward(s, table, w, p, layer, dx, g);
  }
  g[kEmbedding] = embed_backward(dx, tokens, m.width, s.threads);
  return g;
}

}  // namespace mxcheck
