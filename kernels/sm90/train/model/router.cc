#include "kernels/sm90/train/model/router.h"

#include <algorithm>

#include "kernels/candidate_route.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/route/router.h"
#include "kernels/sm90/route/token_rounding.h"
#include "kernels/sm90/train/elementwise/balance.h"
#include "kernels/sm90/train/model/tensor_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

// The variant "topk-softmax".
Router router_of(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterOverflow* overflow) {
  Router r;
  r.score = Score::logits, r.weights = Weights::softmax_of_kept;
  r.experts = static_cast<std::int32_t>(model.config.experts);
  r.top_k = static_cast<std::int32_t>(model.config.top_k);
  r.tokens = static_cast<std::int32_t>(pass.tokens);
  r.logits = t.logits, r.stride = model.config.experts;
  r.stop = &overflow->found;
  return r;
}

// A NaN has a place in the order here: that there is one is found and told otherwise (RouterOverflow).
mxcheck_route_policy route_policy_of(const Model& model, const PassShape& pass) {
  mxcheck_route_policy p{};
  p.policy = empty_policy("topk-softmax", pass.tokens, model.config.experts);
  p.policy.size = sizeof(p);
  p.top_k = model.config.top_k;
  p.nan = MXCHECK_NAN_LAST;
  p.scale = 1, p.renormalize = 1;
  p.rule = model.rounding.c_str();
  p.tile = pass.rule == TokenRoundingRule::none ? 1 : model.config.tile;
  p.seed = model.config.seed;
  return p;
}

void add_metadata(TensorCall& call, const Model& model, const PassShape& pass, const RouterTensors& t) {
  const std::int64_t slots = pass.tokens * model.config.top_k;
  call.in(t.chosen, kInt32Type, {slots});
  call.out(t.counts, kInt32Type, {model.config.experts});
  call.out(t.routes.offsets, kInt64Type, {model.config.experts + 1});
  call.out(t.row_slot, kInt32Type, {slots});
  call.out(t.routes.row_token, kInt32Type, {slots});
  call.out(t.row_expert, kInt32Type, {slots});
  call.out(t.routes.token_rows, kInt32Type, {slots});
}

void add_rounding(TensorCall& call, const Model& model, const PassShape& pass, const RouterTensors& t) {
  const std::int64_t experts = model.config.experts;
  call.in(t.logits, kFp32Type, {pass.tokens, experts});
  call.out(t.counts, kInt32Type, {experts});
  call.out(t.routes.offsets, kInt64Type, {experts + 1});
  call.out(t.routes.row_token, kInt32Type, {pass.most_routed});
  call.out(t.routes.row_weight, kFp32Type, {pass.most_routed});
  call.out(t.routes.token_offsets, kInt64Type, {pass.tokens + 1});
  call.out(t.routes.token_rows, kInt32Type, {pass.most_routed});
}

void choose_tokens(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterScratch& scratch,
                   cudaStream_t stream) {
  require_success(topk(router_of(model, pass, t, scratch.overflow), t.chosen, t.weights, stream));
  const mxcheck_route_policy policy = route_policy_of(model, pass);
  TensorCall call(policy.policy, stream);
  add_metadata(call, model, pass, t);
  metadata_run(call.call(scratch.workspace.data, scratch.workspace.bytes, model.report));
  require_success(launch_row_weights(t.row_slot, t.weights, pass.most_routed, t.routes.row_weight, stream));
}

std::int64_t round_tokens(const Model& model, const PassShape& pass, int layer, std::uint64_t step,
                          const RouterTensors& t, const RouterScratch& scratch, cudaStream_t stream) {
  mxcheck_route_policy policy = route_policy_of(model, pass);
  policy.step = step, policy.layer = static_cast<std::uint32_t>(layer);
  TensorCall call(policy.policy, stream);
  add_rounding(call, model, pass, t);
  token_rounding_run(call.call(scratch.workspace.data, scratch.workspace.bytes, model.report));
  std::int64_t routed = 0;
  require_success(cudaMemcpyAsync(&routed, t.routes.offsets + model.config.experts, sizeof(routed),
                                  cudaMemcpyDeviceToHost, stream));
  require_success(cudaStreamSynchronize(stream));
  return routed;
}

}  // namespace

std::uint64_t router_workspace(const Model& model, const PassShape& pass) {
  const mxcheck_route_policy policy = route_policy_of(model, pass);
  TensorCall call(policy.policy, nullptr);
  if (pass.rule == TokenRoundingRule::none) {
    add_metadata(call, model, pass, {});
    return metadata_workspace(call.call(nullptr, 0, nullptr));
  }
  add_rounding(call, model, pass, {});
  return token_rounding_workspace(call.call(nullptr, 0, nullptr));
}

std::int64_t route_tokens(const Model& model, const PassShape& pass, int layer, std::uint64_t step,
                          const RouterTensors& t, const RouterScratch& scratch, cudaStream_t stream) {
  const std::int64_t count = pass.tokens * model.config.experts;
  require_success(launch_check_finite(t.logits, count, layer, scratch.overflow, stream));
  if (pass.rule != TokenRoundingRule::none) return round_tokens(model, pass, layer, step, t, scratch, stream);
  choose_tokens(model, pass, t, scratch, stream);
  return pass.most_routed;
}

void balance_loss(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterScratch& scratch,
                  float* loss, bool gradient, cudaStream_t stream) {
  BalanceJob job;
  job.logits = t.logits, job.counts = t.counts;
  job.tokens = pass.tokens, job.experts = static_cast<int>(model.config.experts);
  job.coefficient = model.config.balance;
  job.scores = t.balance, job.gradient = gradient ? t.balance : nullptr;
  job.mean = scratch.means, job.slope = scratch.slopes;
  job.loss = loss;
  require_success(launch_balance(job, stream));
}

void router_backward(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterScratch& scratch,
                     const float* ds, std::uint16_t* d_logits, cudaStream_t stream) {
  const std::int64_t experts = model.config.experts;
  BackwardJob job;
  job.router = router_of(model, pass, t, scratch.overflow);
  job.gradient = scratch.slot_gradient;
  job.out = scratch.gradient;
  if (pass.rule == TokenRoundingRule::none) {
    job.experts = t.chosen;
    require_success(launch_slot_gradient(t.routes.token_rows, ds, pass.most_routed, scratch.slot_gradient, stream));
  } else {
    // Weights are scores over the sum of those that are kept, any number of them.
    job.router.score = Score::softmax, job.router.weights = Weights::over_sum;
    job.router.top_k = static_cast<std::int32_t>(experts);
    job.experts = scratch.slot_experts;
    PaddedSlotsJob slots;
    slots.token_offsets = t.routes.token_offsets, slots.token_rows = t.routes.token_rows;
    slots.offsets = t.routes.offsets, slots.ds = ds;
    slots.tokens = pass.tokens, slots.experts = static_cast<int>(experts), slots.width = static_cast<int>(experts);
    slots.slot_experts = scratch.slot_experts, slots.gradient = scratch.slot_gradient;
    require_success(launch_padded_slots(slots, stream));
  }
  require_success(launch_backward(job, stream));
  require_success(launch_rounded_sum(scratch.gradient, t.balance, pass.tokens * experts, d_logits, stream));
}

}  // namespace mxcheck_kernels::sm90
