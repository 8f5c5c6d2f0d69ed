#include "kernels/sm90/train/train_passes.h"

#include "kernels/sm90/common/arguments.h"

namespace mxcheck_kernels::sm90 {
namespace {

// Takes buffers whose names have something in front.
struct Taker {
  Buffers& buffers;
  std::string prefix;

  template <class T>
  void take(T*& to, const char* name, std::int64_t count) const {
    to = buffers.take<T>(prefix + name, count);
  }
};

template <class T>
void fill(T* to, const std::vector<T>& values) {
  require_success(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
}

// +0 in an expert's row of routes that were never made: valid places, whatever the router's logits.
void take_router(const Taker& t, const Model& model, const PassShape& s, bool kept, RouterTensors& r) {
  const std::int64_t experts = model.config.experts;
  const std::int64_t slots = s.tokens * model.config.top_k;
  t.take(r.logits, "logits", s.tokens * experts);
  t.take(r.chosen, "chosen", slots);
  t.take(r.weights, "weights", slots);
  t.take(r.counts, "counts", experts);
  t.take(r.row_slot, "row_slot", slots);
  t.take(r.row_expert, "row_expert", slots);
  t.take(r.balance, kept ? "balance_gradient" : "softmax", s.tokens * experts);
  t.take(r.routes.row_token, "row_token", s.most_routed);
  t.take(r.routes.row_weight, "row_weight", s.most_routed);
  t.take(r.routes.token_offsets, "token_offsets", s.tokens + 1);
  t.take(r.routes.token_rows, "token_rows", s.most_routed);
  t.take(r.routes.offsets, "offsets", experts + 1);
  std::vector<std::int64_t> offsets;
  for (std::int64_t token = 0; token <= s.tokens; ++token) offsets.push_back(token * model.config.top_k);
  fill(r.routes.token_offsets, offsets);
}

void take_kept(const Taker& t, const KeptBytes& bytes, KeptTensors& kept) {
  const auto take = [&](void*& to, const char* name, std::int64_t count) {
    std::uint8_t* data = nullptr;
    t.take(data, name, count);
    to = data;
  };
  take(kept.h, "h", bytes.h), take(kept.h_scales, "h_scales", bytes.h_scales);
  take(kept.x, "x_codes", bytes.x), take(kept.x_scales, "x_scales", bytes.x_scales);
}

LayerActivations take_layer(const Taker& t, const Model& model, const PassShape& s, bool kept,
                            const KeptBytes& kept_bytes) {
  const std::int64_t elements = s.tokens * model.config.width;
  LayerActivations l;
  t.take(l.attention_u, "attention_u", elements);
  t.take(l.attention_scale, "attention_scale", s.tokens);
  t.take(l.heads.q, "q", elements), t.take(l.heads.k, "k", elements), t.take(l.heads.v, "v", elements);
  t.take(l.p, "p", s.attention.groups() * s.attention.length * s.attention.length);
  t.take(l.att, "att", elements);
  t.take(l.middle, "middle", elements);
  t.take(l.moe_u, "moe_u", elements);
  t.take(l.moe_scale, "moe_scale", s.tokens);
  take_router(t, model, s, kept, l.router);
  take_kept(t, kept_bytes, l.kept);
  t.take(l.o, "o", elements);
  return l;
}

void take_ends(const Taker& t, const Model& model, const PassShape& s, Activations& a) {
  const std::int64_t layers = model.config.layers;
  const std::int64_t elements = s.tokens * model.config.width;
  t.take(a.residual, "residual", (layers + 1) * elements);
  a.x = a.residual + layers * elements;
  t.take(a.final_u, "final_u", elements);
  t.take(a.final_scale, "final_scale", s.tokens);
  t.take(a.logits, "logits", s.tokens * kVocabulary);
  t.take(a.losses, "losses", s.tokens);
  t.take(a.partials, "loss_partials", token_sum_partials(s.tokens));
  t.take(a.loss_sum, "loss_sum", 1);
  t.take(a.balance, "balance", layers);
  t.take(a.tokens, "tokens", s.sequences * (model.config.length + 1));
  t.take(a.token_end, "token_end", 1);
  t.take(a.head_ends, "head_ends", s.attention.groups());
  fill(a.token_end, {s.tokens});
  std::vector<std::int64_t> ends;
  for (std::int64_t g = 1; g <= s.attention.groups(); ++g) ends.push_back(g * s.attention.length);
  fill(a.head_ends, ends);
}

void take_scratch(const Taker& t, const Model& model, const PassShape& s, std::uint64_t experts_bytes, Activations& a) {
  const std::int64_t elements = s.tokens * model.config.width;
  const std::int64_t experts = model.config.experts;
  const bool rounds = s.rule != TokenRoundingRule::none;
  t.take(a.qkv, "qkv", 3 * elements);
  t.take(a.scores, "scores", s.attention.groups() * s.attention.length * s.attention.length);
  t.take(a.of_heads, "of_heads", elements);
  t.take(a.y, "y", elements);
  RouterScratch& r = a.router;
  t.take(r.means, "router_means", experts), t.take(r.slopes, "router_slopes", experts);
  t.take(r.slot_experts, "slot_experts", rounds ? s.tokens * experts : 0);
  t.take(r.slot_gradient, "slot_gradient", s.tokens * (rounds ? experts : model.config.top_k));
  t.take(r.gradient, "router_gradient", s.tokens * experts);
  t.take(r.overflow, "overflow", 1);
  const auto take = [&](Workspace& w, const char* name, std::uint64_t bytes) {
    std::uint8_t* data = nullptr;
    t.take(data, name, static_cast<std::int64_t>(bytes));
    w = {data, bytes, model.report};
  };
  take(r.workspace, "router_workspace", router_workspace(model, s));
  take(a.experts, "experts_workspace", experts_bytes);
}

}  // namespace

ExpertsShape experts_shape(const Model& model, const PassShape& pass, std::int64_t layer, std::int64_t routed) {
  const mxcheck_train_config& c = model.config;
  return {recipe_of_layer(model, pass, layer), pass.tokens, c.width, c.inner, c.experts, routed};
}

Activations make_activations(Buffers& buffers, const Model& model, const PassShape& shape, const std::string& prefix,
                             bool kept, const ExpertsBytes& experts) {
  Activations a;
  const std::int64_t elements = shape.tokens * model.config.width;
  take_ends({buffers, prefix}, model, shape, a);
  take_scratch({buffers, prefix}, model, shape, experts.workspace, a);
  for (std::int64_t l = 0; l < model.config.layers; ++l) {
    const std::string name = prefix + "layers." + std::to_string(l) + ".";
    a.layers.push_back(l == 0 || kept ? take_layer({buffers, name}, model, shape, kept, experts.kept)
                                      : a.layers.front());
    a.layers.back().x = a.residual + l * elements;
    // The chosen experts have memory for each layer even so: an evaluation returns them.
    if (!kept && l > 0) {
      a.layers.back().router.chosen = buffers.take<std::int32_t>(name + "chosen", shape.tokens * model.config.top_k);
    }
    buffers.name_part(name + "x", a.layers.back().x, static_cast<std::uint64_t>(elements) * sizeof(float));
  }
  buffers.name_part(prefix + "x", a.x, static_cast<std::uint64_t>(elements) * sizeof(float));
  return a;
}

}  // namespace mxcheck_kernels::sm90
