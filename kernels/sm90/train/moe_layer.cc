#include "kernels/sm90/train/moe_layer.h"

#include <algorithm>
#include <array>
#include <deque>
#include <initializer_list>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/candidate_route.h"
#include "kernels/common/dtype.h"
#include "kernels/common/layer/policy.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/moe/moe_call.h"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/route/token_rounding_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

// A call of kernels/candidate.h as it is put together: tensors in the order in which they are added, contiguous, on the
// current device.
class TensorCall {
 public:
  // The policy outlives the call.
  TensorCall(const mxcheck_policy& policy, cudaStream_t stream) : policy_(&policy), stream_(stream) {
    (void)cudaGetDevice(&device_);
  }

  void in(const void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
    inputs_.push_back(tensor(data, type, shape));
  }
  void out(void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
    outputs_.push_back(tensor(data, type, shape));
  }

  // Valid while this is. Without a workspace it asks for its bytes alone.
  mxcheck_call call(void* workspace, std::uint64_t bytes, mxcheck_device_report* report) {
    mxcheck_call c{};
    c.size = sizeof(c);
    c.num_inputs = static_cast<std::int32_t>(inputs_.size()), c.inputs = inputs_.data();
    c.num_outputs = static_cast<std::int32_t>(outputs_.size()), c.outputs = outputs_.data();
    c.policy = policy_;
    c.workspace = workspace, c.workspace_bytes = bytes;
    c.stream = stream_;
    c.report = report;
    return c;
  }

 private:
  DLTensor tensor(const void* data, DLDataType type, std::initializer_list<std::int64_t> shape) {
    std::vector<std::int64_t>& kept = shapes_.emplace_back(shape);
    DLTensor t{};
    t.data = const_cast<void*>(data);
    t.device = {kDLCUDA, device_};
    t.ndim = static_cast<std::int32_t>(kept.size()), t.shape = kept.data();
    t.dtype = type;
    return t;
  }

  const mxcheck_policy* policy_;
  cudaStream_t stream_;
  int device_ = 0;
  std::deque<std::vector<std::int64_t>> shapes_;
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
};

mxcheck_policy empty_policy(const char* recipe, std::int64_t rows, std::int64_t cols) {
  mxcheck_policy policy{};
  policy.format = "", policy.recipe = recipe;
  policy.rows = rows, policy.cols = cols;
  return policy;
}

// ---- The experts ----

mxcheck_moe_policy policy_of(const ExpertsShape& s) {
  mxcheck_moe_policy p{};
  p.policy = empty_policy(s.recipe, s.tokens, s.width);
  p.policy.size = sizeof(p);
  p.inner = s.inner, p.experts = s.experts, p.routed = s.routed;
  p.gate_up = MXCHECK_HALVES;
  p.seed = s.seed, p.step = s.step, p.layer = s.layer;
  return p;
}

void add_weights(TensorCall& call, const ExpertsShape& s, const ExpertsTensors& t) {
  call.in(t.w1, kBf16Type, {s.experts * s.width, 2 * s.inner});
  call.in(t.w2, kBf16Type, {s.experts * s.inner, s.width});
}

void add_routes(TensorCall& call, const ExpertsShape& s, const RouteTensors& r) {
  call.in(r.row_token, kInt32Type, {s.routed});
  call.in(r.row_weight, kFp32Type, {s.routed});
  call.in(r.token_offsets, kInt64Type, {s.tokens + 1});
  call.in(r.token_rows, kInt32Type, {s.routed});
  call.in(r.offsets, kInt64Type, {s.experts + 1});
}

// Visits the tensors that are kept, by add(data, type, rows, cols).
template <class Add>
void each_kept_h(const ExpertsShape& s, const MoeRecipe& recipe, const KeptTensors& kept, const Add& add) {
  if (recipe.keeps_e5m6) {
    add(kept.h, kByteType, s.routed, 12 * blocks_of(2 * s.inner, 8));
    add(kept.h_scales, kByteType, s.routed, blocks_of(2 * s.inner, 128));
  } else {
    add(kept.h, kBf16Type, s.routed, 2 * s.inner);
  }
}
template <class Add>
void each_kept_x(const ExpertsShape& s, const MoeRecipe& recipe, const KeptTensors& kept, const Add& add) {
  if (!recipe.keeps_codes()) return;
  add(kept.x, kByteType, s.tokens, s.width);
  add(kept.x_scales, scale_type(recipe.scale), s.tokens, blocks_of(s.width, 128));
}

KeptBytes kept_bytes(const ExpertsShape& s) {
  const MoeRecipe& recipe = moe_recipe_named(s.recipe);
  std::int64_t sizes[4] = {};
  int at = 0;
  const auto add = [&](void*, DLDataType type, std::int64_t rows, std::int64_t cols) {
    sizes[at++] = rows * cols * (type.bits / 8);
  };
  each_kept_h(s, recipe, {}, add);
  at = 2;
  each_kept_x(s, recipe, {}, add);
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

// docs/layer.md's.
constexpr std::array kRecipes{"bf16",          "mxfp8",          "mxfp8_floor",       "mxfp8_e5m2_grad", "broken",
                              "dsv3",          "dsv3_pow2",      "dsv3_128x128_grad", "fp8_tensor",      "nvfp4",
                              "nvfp4_forward", "nvfp4_backward", "nvfp4_46",          "quartet2"};

}  // namespace

bool draws_words(const char* recipe) { return moe_recipe_named(recipe).stochastic(); }

ExpertsBytes experts_bytes(const ExpertsShape& shape, bool backward) {
  ExpertsBytes bytes{kept_bytes(shape), experts_forward(shape, {}, {}).workspace_bytes};
  if (backward) bytes.workspace = std::max(bytes.workspace, experts_backward(shape, {}, {}).workspace_bytes);
  return bytes;
}

ExpertsBytes experts_bytes_of_all(ExpertsShape shape) {
  ExpertsBytes most;
  for (const char* const name : kRecipes) {
    if (moe_recipe_named(name).fp8() && (shape.width % 128 != 0 || shape.inner % 128 != 0)) continue;
    shape.recipe = name;
    const ExpertsBytes one = experts_bytes(shape, false);
    most.workspace = std::max(most.workspace, one.workspace);
    most.kept = {std::max(most.kept.h, one.kept.h), std::max(most.kept.h_scales, one.kept.h_scales),
                 std::max(most.kept.x, one.kept.x), std::max(most.kept.x_scales, one.kept.x_scales)};
  }
  return most;
}

MoePlan experts_forward(const ExpertsShape& s, const ExpertsTensors& t, const Workspace& workspace) {
  const MoeRecipe& recipe = moe_recipe_named(s.recipe);
  const mxcheck_moe_policy policy = policy_of(s);
  TensorCall call(policy.policy, nullptr);
  const auto out = [&](void* data, DLDataType type, std::int64_t rows, std::int64_t cols) {
    call.out(data, type, {rows, cols});
  };
  call.in(t.x, kBf16Type, {s.tokens, s.width});
  add_weights(call, s, t);
  add_routes(call, s, t.routes);
  out(t.o, kBf16Type, s.tokens, s.width);
  each_kept_h(s, recipe, t.kept, out);
  each_kept_x(s, recipe, t.kept, out);
  return moe_forward_plan(call.call(workspace.data, workspace.bytes, workspace.report));
}

MoePlan experts_backward(const ExpertsShape& s, const ExpertsTensors& t, const Workspace& workspace) {
  const MoeRecipe& recipe = moe_recipe_named(s.recipe);
  const mxcheck_moe_policy policy = policy_of(s);
  TensorCall call(policy.policy, nullptr);
  const auto in = [&](void* data, DLDataType type, std::int64_t rows, std::int64_t cols) {
    call.in(data, type, {rows, cols});
  };
  call.in(t.d_o, kBf16Type, {s.tokens, s.width});
  add_weights(call, s, t);
  each_kept_h(s, recipe, t.kept, in);
  if (recipe.keeps_codes()) {
    each_kept_x(s, recipe, t.kept, in);
  } else {
    call.in(t.x, kBf16Type, {s.tokens, s.width});
  }
  add_routes(call, s, t.routes);
  call.out(t.dx, kBf16Type, {s.tokens, s.width});
  call.out(t.dw1, kFp32Type, {s.experts * s.width, 2 * s.inner});
  call.out(t.dw2, kFp32Type, {s.experts * s.inner, s.width});
  call.out(t.ds, kFp32Type, {s.routed});
  return moe_backward_plan(call.call(workspace.data, workspace.bytes, workspace.report));
}

void enqueue(const MoePlan& plan, const GemmCopy& copy, cudaStream_t stream) {
  for (const MoeStep& step : plan.steps) {
    require_success(step.enqueue(stream));
    if (copy.to == nullptr || !step.product || step.product->gemm != copy.gemm) continue;
    require_success(cudaMemcpyAsync(copy.to, step.product->d, step.product->bytes, cudaMemcpyDeviceToDevice, stream));
  }
}

// ---- The router ----

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

void topk_tokens(const Model& model, const PassShape& pass, const RouterTensors& t, const RouterScratch& scratch,
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
  topk_tokens(model, pass, t, scratch, stream);
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
