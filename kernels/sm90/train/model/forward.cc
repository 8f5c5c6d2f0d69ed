#include "kernels/sm90/train/model/forward.h"

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/train/elementwise/norm.h"

namespace mxcheck_kernels::sm90 {
namespace {

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
    p.plans.forward[layer] =
        experts_forward(experts_shape(p.model, p.shape, routed), experts_tensors(p, at, l), p.a.experts);
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

}  // namespace mxcheck_kernels::sm90
