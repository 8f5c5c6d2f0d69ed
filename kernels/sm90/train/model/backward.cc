#include "kernels/sm90/train/model/backward.h"

#include <string>

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/train/elementwise/norm.h"

namespace mxcheck_kernels::sm90 {
namespace {

struct NormInput {
  const float* x;
  const float* scale;
  std::size_t gain;
};

// dx and, beside the main stream, the gain's gradient.
void norm_half(const Pass& p, const BackwardTensors& t, const NormInput& norm, NormBackwardJob job) {
  job.x = norm.x, job.scale = norm.scale, job.gain = p.model.gain(norm.gain);
  job.dx = t.dx;
  job.dgain = p.model.gradient(norm.gain), job.partials = t.partials;
  job.rows = p.shape.tokens, job.width = static_cast<int>(p.model.config.width);
  require_success(launch_norm_gain(job, p.aside()));
  require_success(launch_norm_backward(job, p.stream));
}

void output_backward(const Pass& p, const BackwardTensors& t) {
  const std::int64_t layers = p.model.config.layers;
  const std::size_t output = output_of(layers);
  const LinearMap map = p.map(p.model.config.width, kVocabulary);
  linear_dw(map, t.d_logits, p.a.final_u, p.model.gradient(output), p.aside());
  linear_dx(map, t.d_logits, p.model.weight(output), MatmulOutput::fp32, t.final_du, p.stream);
  NormBackwardJob job;
  job.dy = t.final_du, job.rounded = t.rounded;
  norm_half(p, t, {p.a.x, p.a.final_scale, final_norm_of(layers)}, job);
}

void experts_layer(const Pass& p, const BackwardTensors& t, std::size_t layer, const LayerParameters& at) {
  const LayerActivations& l = p.a.layers[layer];
  MoePlan& plan = p.plans.backward[layer];
  if (plan.steps.empty() || p.shape.rule != TokenRoundingRule::none) {
    ExpertsTensors tensors;
    tensors.w1 = p.model.weight(at.w1), tensors.w2 = p.model.weight(at.w2);
    tensors.x = l.moe_u, tensors.routes = l.router.routes, tensors.kept = l.kept;
    tensors.d_o = t.rounded, tensors.dx = t.layers[layer].expert_dx, tensors.ds = t.ds;
    tensors.dw1 = p.model.gradient(at.w1), tensors.dw2 = p.model.gradient(at.w2);
    plan = experts_backward(experts_shape(p.model, p.shape, p.plans.routed[layer]), tensors, p.a.experts);
  }
  if (p.observed == nullptr) {
    enqueue(plan, {}, p.stream);
    return;
  }
  const ObservedTensors& o = (*p.observed)[layer];
  const auto bytes = static_cast<std::size_t>(p.shape.tokens * p.model.config.width) * sizeof(*o.d_o);
  require_success(cudaMemcpyAsync(o.d_o, t.rounded, bytes, cudaMemcpyDeviceToDevice, p.stream));
  enqueue(plan, {"d_down", o.p}, p.stream);
}

// The MoE half: takes dx after the layer, leaves dx between attention and it.
void experts_half(const Pass& p, const BackwardTensors& t, std::size_t layer, const LayerParameters& at) {
  const LayerActivations& l = p.a.layers[layer];
  const LayerGradients& g = t.layers[layer];
  experts_layer(p, t, layer, at);
  router_backward(p.model, p.shape, l.router, p.a.router, t.ds, g.d_router, p.stream);
  const LinearMap map = p.map(p.model.config.width, p.model.config.experts);
  linear_dw(map, g.d_router, l.moe_u, p.model.gradient(at.router), p.aside());
  linear_dx(map, g.d_router, p.model.weight(at.router), MatmulOutput::fp32, g.moe_du, p.stream);
  NormBackwardJob job;
  job.dy = g.moe_du, job.dy_added = g.expert_dx, job.adds = true, job.rounded = g.rounded;
  norm_half(p, t, {l.middle, l.moe_scale, at.moe_norm}, job);
}

// From the gradient of att, by tokens, to that of qkv.
void heads_backward(const Pass& p, const BackwardTensors& t, const LayerActivations& l, std::uint16_t* dqkv) {
  const AttentionShape& shape = p.shape.attention;
  const HeadProducts heads = p.heads();
  require_success(launch_split_heads(shape, t.d_att, t.d_att_heads, p.stream));
  head_scores(heads, t.d_att_heads, l.heads.v, p.a.scores, p.stream);
  head_mix_transposed(heads, l.p, t.d_att_heads, MatmulOutput::bf16, t.dv, p.stream);
  require_success(launch_score_gradient(shape, l.p, p.a.scores, t.dz, p.stream));
  head_mix(heads, t.dz, l.heads.k, MatmulOutput::fp32, t.dq, p.stream);
  head_mix_transposed(heads, t.dz, l.heads.q, MatmulOutput::fp32, t.dk, p.stream);
  require_success(launch_merge_qkv(shape, p.model.rotation, t.dq, t.dk, t.dv, dqkv, p.stream));
}

void attention_half(const Pass& p, const BackwardTensors& t, std::size_t layer, const LayerParameters& at) {
  const LayerActivations& l = p.a.layers[layer];
  const LayerGradients& g = t.layers[layer];
  const std::int64_t d = p.model.config.width;
  linear_dw(p.map(d, d), g.rounded, l.att, p.model.gradient(at.attention_out), p.aside());
  linear_dx(p.map(d, d), g.rounded, p.model.weight(at.attention_out), MatmulOutput::bf16, t.d_att, p.stream);
  heads_backward(p, t, l, g.dqkv);
  linear_dw(p.map(d, 3 * d), g.dqkv, l.attention_u, p.model.gradient(at.qkv), p.aside());
  linear_dx(p.map(d, 3 * d), g.dqkv, p.model.weight(at.qkv), MatmulOutput::fp32, g.attention_du, p.stream);
  NormBackwardJob job;
  job.dy = g.attention_du, job.adds = true, job.rounded = t.rounded;
  norm_half(p, t, {l.x, l.attention_scale, at.attention_norm}, job);
}

LayerGradients take_layer(Buffers& buffers, const std::string& name, const Model& model, const PassShape& s) {
  const std::int64_t elements = s.tokens * model.config.width;
  LayerGradients g;
  g.rounded = buffers.take<std::uint16_t>(name + "d_middle_rounded", elements);
  g.expert_dx = buffers.take<std::uint16_t>(name + "expert_dx", elements);
  g.d_router = buffers.take<std::uint16_t>(name + "d_router", s.tokens * model.config.experts);
  g.dqkv = buffers.take<std::uint16_t>(name + "dqkv", 3 * elements);
  g.moe_du = buffers.take<float>(name + "moe_du", elements);
  g.attention_du = buffers.take<float>(name + "attention_du", elements);
  return g;
}

}  // namespace

BackwardTensors take_backward(Buffers& buffers, const Model& model, const PassShape& s) {
  const std::int64_t elements = s.tokens * model.config.width;
  BackwardTensors t;
  for (std::int64_t l = 0; l < model.config.layers; ++l)
    t.layers.push_back(take_layer(buffers, "layers." + std::to_string(l) + ".", model, s));
  t.final_du = buffers.take<float>("final_du", elements);
  t.d_logits = buffers.take<std::uint16_t>("d_logits", s.tokens * kVocabulary);
  t.dx = buffers.take<float>("dx", elements);
  t.rounded = buffers.take<std::uint16_t>("dx_rounded", elements);
  t.partials = buffers.take<float>("gain_partials", norm_partials(s.tokens, static_cast<int>(model.config.width)));
  t.ds = buffers.take<float>("ds", s.most_routed);
  t.d_att = buffers.take<std::uint16_t>("d_att", elements);
  t.d_att_heads = buffers.take<std::uint16_t>("d_att_heads", elements);
  t.dz = buffers.take<std::uint16_t>("dz", s.attention.groups() * s.attention.length * s.attention.length);
  t.dv = buffers.take<std::uint16_t>("dv", elements);
  t.dq = buffers.take<float>("dq", elements);
  t.dk = buffers.take<float>("dk", elements);
  return t;
}

void backward(const Pass& p, const BackwardTensors& t) {
  output_backward(p, t);
  for (std::int64_t n = p.model.config.layers; n-- > 0;) {
    const LayerParameters at = parameters_of_layer(n);
    experts_half(p, t, static_cast<std::size_t>(n), at);
    attention_half(p, t, static_cast<std::size_t>(n), at);
  }
  require_success(launch_embed_backward(p.tokens(), t.dx, static_cast<int>(p.model.config.width),
                                        p.model.gradient(kEmbedding), p.stream));
  p.join();
}

}  // namespace mxcheck_kernels::sm90
