#include "kernels/sm90/train/train_passes.h"

#include <string>

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "kernels/sm90/train/train_kernels.h"

namespace mxcheck_kernels::sm90 {

namespace {

// ---- GEMMs ----

MatmulCall product(MatmulKind kind, MatmulOutput output, const void* a, const void* b, void* d) {
  MatmulCall matmul;
  matmul.kind = kind, matmul.output = output;
  matmul.a = a, matmul.b = b, matmul.d = d;
  return matmul;
}

MatmulCall of_heads(const HeadProducts& h, MatmulCall matmul) {
  matmul.experts = h.groups, matmul.offsets = h.ends;
  return matmul;
}

// y = x W^T.
void linear(const LinearMap& map, const std::uint16_t* x, const std::uint16_t* w, MatmulOutput output, void* y,
            cudaStream_t stream) {
  MatmulCall matmul = product(MatmulKind::dense, output, x, w, y);
  matmul.m = map.rows, matmul.n = map.out, matmul.k = map.in;
  require_success(matmul_bf16_launch(matmul, stream));
}

// dy W, rows x in.
void linear_dx(const LinearMap& map, const std::uint16_t* dy, const std::uint16_t* w, MatmulOutput output, void* dx,
               cudaStream_t stream) {
  MatmulCall matmul = product(MatmulKind::rows, output, dy, w, dx);
  matmul.m = map.rows, matmul.n = map.in, matmul.k = map.out;
  matmul.offsets = map.end;
  require_success(matmul_mn_major_launch(matmul, stream));
}

// dy^T x, out x in.
void linear_dw(const LinearMap& map, const std::uint16_t* dy, const std::uint16_t* x, float* dw, cudaStream_t stream) {
  MatmulCall matmul = product(MatmulKind::depth, MatmulOutput::fp32, dy, x, dw);
  matmul.m = map.out, matmul.n = map.in, matmul.k = map.rows;
  matmul.offsets = map.end;
  require_success(matmul_mn_major_launch(matmul, stream));
}

// a b^T, FP32 scores.
void head_scores(const HeadProducts& h, const std::uint16_t* a, const std::uint16_t* b, float* scores,
                 cudaStream_t stream) {
  MatmulCall matmul = of_heads(h, product(MatmulKind::rows, MatmulOutput::fp32, a, b, scores));
  matmul.m = h.groups * h.length, matmul.n = h.length, matmul.k = h.width;
  require_success(matmul_bf16_launch(matmul, stream));
}

// scores x.
void head_mix(const HeadProducts& h, const std::uint16_t* scores, const std::uint16_t* x, MatmulOutput output,
              void* out, cudaStream_t stream) {
  MatmulCall matmul = of_heads(h, product(MatmulKind::rows, output, scores, x, out));
  matmul.m = h.groups * h.length, matmul.n = h.width, matmul.k = h.length;
  require_success(matmul_mn_major_launch(matmul, stream));
}

// scores^T x.
void head_mix_transposed(const HeadProducts& h, const std::uint16_t* scores, const std::uint16_t* x,
                         MatmulOutput output, void* out, cudaStream_t stream) {
  MatmulCall matmul = of_heads(h, product(MatmulKind::depth, output, scores, x, out));
  matmul.m = h.length, matmul.n = h.width, matmul.k = h.groups * h.length;
  require_success(matmul_mn_major_launch(matmul, stream));
}

// ---- Forward ----

NormJob norm_of(const Pass& p, const float* x, const float* gain, std::uint16_t* y, float* scale) {
  NormJob job;
  job.x = x, job.gain = gain, job.y = y, job.scale = scale;
  job.rows = p.shape.tokens, job.width = static_cast<int>(p.model.config.width);
  return job;
}

// RN(x + added) to `sum`, and its norm.
void add_and_norm(NormJob job, const std::uint16_t* added, float* sum, cudaStream_t stream) {
  job.added = added, job.sum = sum;
  require_success(launch_norm(job, stream));
}

void attend(const Pass& p, const LayerParameters& at, const LayerActivations& l) {
  const std::int64_t d = p.model.config.width;
  const AttentionShape& shape = p.shape.attention;
  linear(p.map(d, 3 * d), l.attention_u, p.model.weight(at.qkv), MatmulOutput::bf16, p.a.qkv, p.stream);
  require_success(launch_split_qkv(shape, p.model.rotation, p.a.qkv, l.heads, p.stream));
  head_scores(p.heads(), l.heads.q, l.heads.k, p.a.scores, p.stream);
  require_success(launch_causal_softmax(shape, p.a.scores, l.p, p.stream));
  head_mix(p.heads(), l.p, l.heads.v, MatmulOutput::bf16, p.a.of_heads, p.stream);
  require_success(launch_merge_heads(shape, p.a.of_heads, l.att, p.stream));
  linear(p.map(d, d), l.att, p.model.weight(at.attention_out), MatmulOutput::bf16, p.a.y, p.stream);
}

ExpertsTensors experts_tensors(const Pass& p, const LayerParameters& at, const LayerActivations& l) {
  ExpertsTensors t;
  t.w1 = p.model.weight(at.w1), t.w2 = p.model.weight(at.w2);
  t.x = l.moe_u, t.routes = l.router.routes, t.kept = l.kept, t.o = l.o;
  return t;
}

void mix_experts(const Pass& p, std::size_t layer, const LayerParameters& at, const LayerActivations& l) {
  const std::int64_t d = p.model.config.width;
  linear(p.map(d, p.model.config.experts), l.moe_u, p.model.weight(at.router), MatmulOutput::fp32, l.router.logits,
         p.stream);
  const std::int64_t routed =
      route_tokens(p.model, p.shape, static_cast<int>(layer), p.step, l.router, p.a.router, p.stream);
  balance_loss(p.model, p.shape, l.router, p.a.router, p.a.balance + layer, p.backward, p.aside());
  // Plans of token choice stay as they are: the first pass makes them.
  if (p.plans.routed[layer] != routed || p.shape.rule != TokenRoundingRule::none) {
    p.plans.forward[layer] = experts_forward(experts_shape(p.model, p.shape, static_cast<std::int64_t>(layer), routed),
                                             experts_tensors(p, at, l), p.a.experts);
    p.plans.routed[layer] = routed;
  }
  enqueue(p.plans.forward[layer], {"up", p.observed == nullptr ? nullptr : (*p.observed)[layer].h}, p.stream);
}

}  // namespace

void forward(const Pass& p) {
  const auto layers = static_cast<std::size_t>(p.model.config.layers);
  const int width = static_cast<int>(p.model.config.width);
  require_success(launch_no_overflow(p.a.router.overflow, p.stream));
  require_success(launch_embed(p.tokens(), p.model.weight(kEmbedding), width, p.a.layers[0].x, p.stream));
  for (std::size_t n = 0; n < layers; ++n) {
    const LayerActivations& l = p.a.layers[n];
    const LayerParameters at = parameters_of_layer(static_cast<std::int64_t>(n));
    if (n == 0) {
      require_success(
          launch_norm(norm_of(p, l.x, p.model.gain(at.attention_norm), l.attention_u, l.attention_scale), p.stream));
    } else {
      const LayerActivations& before = p.a.layers[n - 1];
      add_and_norm(norm_of(p, before.middle, p.model.gain(at.attention_norm), l.attention_u, l.attention_scale),
                   before.o, l.x, p.stream);
    }
    attend(p, at, l);
    add_and_norm(norm_of(p, l.x, p.model.gain(at.moe_norm), l.moe_u, l.moe_scale), p.a.y, l.middle, p.stream);
    mix_experts(p, n, at, l);
  }
  const LayerActivations& last = p.a.layers.back();
  add_and_norm(
      norm_of(p, last.middle, p.model.gain(final_norm_of(p.model.config.layers)), p.a.final_u, p.a.final_scale), last.o,
      p.a.x, p.stream);
  linear(p.map(width, kVocabulary), p.a.final_u, p.model.weight(output_of(p.model.config.layers)), MatmulOutput::fp32,
         p.a.logits, p.stream);
  p.join();
}

// ---- Backward ----

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
  if (plan.steps.empty() || p.shape.rule != TokenRoundingRule::none || draws_words(p.shape.recipe)) {
    ExpertsTensors tensors;
    tensors.w1 = p.model.weight(at.w1), tensors.w2 = p.model.weight(at.w2);
    tensors.x = l.moe_u, tensors.routes = l.router.routes, tensors.kept = l.kept;
    tensors.d_o = t.rounded, tensors.dx = t.layers[layer].expert_dx, tensors.ds = t.ds;
    tensors.dw1 = p.model.gradient(at.w1), tensors.dw2 = p.model.gradient(at.w2);
    ExpertsShape shape = experts_shape(p.model, p.shape, static_cast<std::int64_t>(layer), p.plans.routed[layer]);
    shape.seed = p.model.config.seed, shape.step = p.step, shape.layer = static_cast<std::uint32_t>(layer);
    plan = experts_backward(shape, tensors, p.a.experts);
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

// Turns the gradient of att, by tokens, into that of qkv.
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

LayerGradients take_layer_gradients(Buffers& buffers, const std::string& name, const Model& model, const PassShape& s) {
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
    t.layers.push_back(take_layer_gradients(buffers, "layers." + std::to_string(l) + ".", model, s));
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
