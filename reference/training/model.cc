// The parameters as a list: docs/training.md has them as a table, and the standard deviations of their initial values.

#include "reference/training/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "numerics/elementary/elementary.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/training/attention.h"
#include "reference/training/observe.h"
#include "reference/training/parts.h"
#include "reference/training/passes.h"

namespace mxcheck {
void check(const TrainingConfig& c) {
  const ModelShape& m = c.model;
  const auto positive = [](std::int64_t value, const char* name) {
    require(value > 0 && value <= 1 << 24,
            std::string(name) + " is " + std::to_string(value) + "; 1 to 2^24 is needed");
  };
  positive(m.layers, "layers"), positive(m.width, "width"), positive(m.heads, "heads");
  positive(m.experts, "experts"), positive(m.inner, "inner"), positive(m.top_k, "top_k");
  positive(m.length, "length"), positive(c.batch, "batch"), positive(c.steps, "steps");
  require(m.layers <= 1 << 16, "layers are " + std::to_string(m.layers) + "; 1 to 2^16 are needed");
  require(m.width % m.heads == 0 && m.head_width() % 2 == 0,
          "width " + std::to_string(m.width) + " must be heads (" + std::to_string(m.heads) + ") times an even number");
  require(m.top_k <= m.experts,
          "top_k is " + std::to_string(m.top_k) + " of " + std::to_string(m.experts) + " experts; at most all");
  require(checked_product(c.batch, m.length, "training: batch x length") <= 1 << 24,
          "batch x length is above 2^24 tokens a step");
  const bool cuts = c.microbatches > 0 && (c.microbatches & (c.microbatches - 1)) == 0 && c.batch % c.microbatches == 0;
  require(cuts, "microbatches are " + std::to_string(c.microbatches) + " of a batch of " + std::to_string(c.batch) +
                    " sequences; a power of two that divides it is needed");
  require(c.perturb >= kPerturbOrder && c.perturb <= parameter_count(m),
          "perturb is " + std::to_string(c.perturb) + "; 0, -1 for all weights, -2 for another order, or 1 to " +
              std::to_string(parameter_count(m)) + ", the number of weights, is needed");
  check(c.recipe);
  require(c.bf16_last >= 0 && c.bf16_last < m.layers, "bf16_last is " + std::to_string(c.bf16_last) + " of " +
                                                          std::to_string(m.layers) + " layers; 0 to " +
                                                          std::to_string(m.layers - 1) + " is needed");
  require(
      c.bf16_last == 0 || c.recipe != layer_recipe_named("bf16"),
      "bf16_last is " + std::to_string(c.bf16_last) + " of the recipe bf16, whose layers are all in BF16; 0 is needed");
  require(
      c.rounding == TokenRoundingRule::none || rounds_to_tiles(c.rounding),
      "token rounding by '" + std::string(to_text(c.rounding)) + "'; none, or a rule that rounds to tiles is needed");
  if (c.rounding != TokenRoundingRule::none) positive(c.tile, "tile");
  const OptimizerConfig& o = c.optimizer;
  const auto finite = [](float value, bool holds, const char* name, const char* range) {
    require(std::isfinite(value) && holds, std::string(name) + " is " + std::to_string(value) + "; " + range);
  };
  finite(c.balance, c.balance >= 0, "balance", "0 or above is needed");
  finite(o.peak_rate, o.peak_rate >= 0, "peak_rate", "0 or above is needed");
  finite(o.last_rate, o.last_rate >= 0 && o.last_rate <= o.peak_rate, "last_rate", "0 to peak_rate is needed");
  finite(o.beta1, o.beta1 >= 0 && o.beta1 < 1, "beta1", "0 to below 1 is needed");
  finite(o.beta2, o.beta2 >= 0 && o.beta2 < 1, "beta2", "0 to below 1 is needed");
  finite(o.epsilon, o.epsilon > 0, "epsilon", "above 0 is needed");
  finite(o.decay, o.decay >= 0, "decay", "0 or above is needed");
  finite(o.clip, o.clip > 0, "clip", "above 0 is needed");
  require(o.warm_up >= 0 && o.warm_up <= 1 << 24, "warm_up is " + std::to_string(o.warm_up) + "; 0 to 2^24 is needed");
  require(o.moments == Format::fp32 || o.moments == Format::bf16, "moments are in fp32 or bf16");
}

const LayerRecipe& recipe_of_layer(const TrainingConfig& c, const LayerRecipe& recipe, std::int64_t layer) {
  return stays_in_bf16(c, layer) ? layer_recipe_named("bf16") : recipe;
}

std::vector<ParameterSpec> parameters_of(const ModelShape& m) {
  const std::int64_t d = m.width;
  const float of_width = one_over_root(d);
  const float of_depth = one_over_root(2 * m.layers);
  std::vector<ParameterSpec> all;
  const auto gain = [&](std::string name) { all.push_back({std::move(name), ParameterKind::gain, 1, 1, d, 0}); };
  const auto matrix = [&](std::string name, std::int64_t matrices, std::int64_t rows, std::int64_t cols,
                          float deviation) {
    all.push_back({std::move(name), ParameterKind::matrix, matrices, rows, cols, deviation});
  };
  all.push_back({"embedding", ParameterKind::embedding, 1, kVocabulary, d, 0.125F});
  for (std::int64_t l = 0; l < m.layers; ++l) {
    const std::string layer = "layers." + std::to_string(l) + ".";
    gain(layer + "attention_norm");
    matrix(layer + "qkv", 1, 3 * d, d, of_width);
    matrix(layer + "attention_out", 1, d, d, of_width * of_depth);
    gain(layer + "moe_norm");
    matrix(layer + "router", 1, m.experts, d, of_width);
    matrix(layer + "w1", m.experts, d, 2 * m.inner, of_width);
    matrix(layer + "w2", m.experts, m.inner, d, one_over_root(m.inner) * of_depth);
  }
  gain("final_norm");
  matrix("output", 1, kVocabulary, d, of_width);
  return all;
}

// All layers have the same: a configuration from a file may ask for more of them than can be listed.
std::int64_t parameter_count(const ModelShape& model) {
  ModelShape one_layer = model;
  one_layer.layers = 1;
  std::int64_t count = 0;
  for (const ParameterSpec& p : parameters_of(one_layer)) {
    constexpr const char* kWhat = "training: the number of weights";
    std::int64_t size = checked_product(checked_product(p.matrices, p.rows, kWhat), p.cols, kWhat);
    if (p.name.starts_with("layers.")) size = checked_product(size, model.layers, kWhat);
    count = checked_sum(count, size, kWhat);
  }
  return count;
}

// The forward pass: docs/training.md, "Forward", line by line.

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

// The experts of layer `index` of the model, on all tokens of the pass.
Layer experts_of(const PassSetting& s, const PassWeights& w, std::int64_t index) {
  const ModelShape& m = s.config.model;
  const LayerParameters p = parameters_of_layer(index);
  Layer layer{{s.tokens(), m.width, m.inner, m.experts},
              &recipe_of_layer(s.config, s.recipe, index),
              GateUp::halves,
              w.bf16[p.w1],
              w.bf16[p.w2],
              s.threads};
  layer.random = {s.config.seed, static_cast<std::uint32_t>(s.step), static_cast<std::uint32_t>(index)};
  return layer;
}

// The layer's output, N x d.
std::vector<std::uint16_t> mixture(const PassSetting& s, const PassWeights& w, std::int64_t index, LayerPass& pass) {
  const Layer layer = experts_of(s, w, index);
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
  x = plus(pass.middle, mixture(s, w, layer, pass));
  pass.observation.output_digest = tensor_digest(x, s.threads, s.first_token() * m.width);
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

// The backward pass: docs/training.md, "Backward", line by line.

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
void mixture_backward(const PassSetting& s, const PassWeights& w, std::int64_t index, LayerPass& pass,
                      std::vector<float>& dx, Gradients& g) {
  const ModelShape& m = s.config.model;
  const LayerParameters p = parameters_of_layer(index);
  const std::vector<std::uint16_t> d_o = rounded_to_bf16(dx, s.threads);
  const Layer layer = experts_of(s, w, index);
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
    mixture_backward(s, w, l, layer, dx, g);
    attention_half_backward(s, table, w, p, layer, dx, g);
  }
  g[kEmbedding] = embed_backward(dx, tokens, m.width, s.threads);
  return g;
}

namespace {

// One token's loss, and the gradient of its logits times `share`. A NaN or a +Inf among the logits makes all of it NaN.
float row_loss(std::span<const float> z, std::uint8_t target, float share, std::span<std::uint16_t> dz) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float v : z) {
    if (v > largest) largest = v;
  }
  std::array<float, kVocabulary> e{};
  for (std::size_t i = 0; i < e.size(); ++i) e[i] = exp_rn(z[i] - largest);
  const float sum = pairwise_sum(e);
  for (std::size_t i = 0; i < e.size(); ++i) dz[i] = to_bf16((e[i] / sum - (i == target ? 1.0F : 0.0F)) * share);
  return (log_rn(sum) + largest) - z[target];
}

}  // namespace

std::vector<float> embed(std::span<const std::uint16_t> weights, std::span<const std::uint8_t> tokens,
                         std::int64_t width) {
  require_size("the embedding", std::ssize(weights), kVocabulary * width);
  std::vector<float> x;
  x.reserve(tokens.size() * static_cast<std::size_t>(width));
  for (const std::uint8_t token : tokens) {
    for (const std::uint16_t word : row_of(weights, token, width)) x.push_back(widen(word));
  }
  return x;
}

std::vector<float> embed_backward(std::span<const float> dx, std::span<const std::uint8_t> tokens, std::int64_t width,
                                  int threads) {
  require_size("dx of the embedding", std::ssize(dx), std::ssize(tokens) * width);
  std::vector<float> d_weights(static_cast<std::size_t>(kVocabulary * width));
  parallel_ranges(kVocabulary, std::ssize(dx), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] < begin || tokens[t] >= end) continue;
      const std::span<float> row = row_of(std::span(d_weights), tokens[t], width);
      const std::span<const float> from = row_of(dx, static_cast<std::int64_t>(t), width);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += from[i];
    }
  });
  return d_weights;
}

TokenLoss token_loss(std::span<const float> logits, std::span<const std::uint8_t> targets, int threads) {
  const std::int64_t tokens = std::ssize(targets);
  require(tokens > 0, "a loss of no tokens; at least one is needed");
  require_size("logits", std::ssize(logits), tokens * kVocabulary);
  TokenLoss loss;
  loss.d_logits.resize(logits.size());
  std::vector<float> losses(targets.size());
  const float share = 1.0F / static_cast<float>(tokens);
  // exp costs as much as some eight elements.
  parallel_ranges(tokens, std::ssize(logits) * 8, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto token = static_cast<std::size_t>(t);
      losses[token] = row_loss(row_of(logits, t, kVocabulary), targets[token], share,
                               row_of(std::span(loss.d_logits), t, kVocabulary));
    }
  });
  loss.loss = pairwise_sum(losses) / static_cast<float>(tokens);
  return loss;
}

}  // namespace mxcheck
