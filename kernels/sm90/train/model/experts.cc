#include "kernels/sm90/train/model/experts.h"

#include <algorithm>
#include <array>

#include "kernels/common/layer/policy.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/moe/moe_call.h"
#include "kernels/sm90/train/model/tensor_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

mxcheck_moe_policy policy_of(const ExpertsShape& s) {
  mxcheck_moe_policy p{};
  p.policy = empty_policy(s.recipe, s.tokens, s.width);
  p.policy.size = sizeof(p);
  p.inner = s.inner, p.experts = s.experts, p.routed = s.routed;
  p.gate_up = MXCHECK_HALVES;
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
constexpr std::array kRecipes{"bf16", "mxfp8",     "mxfp8_floor",       "mxfp8_e5m2_grad", "broken",
                              "dsv3", "dsv3_pow2", "dsv3_128x128_grad", "fp8_tensor"};

}  // namespace

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
    if (copy.to == nullptr || !step.gemm || step.name != copy.gemm) continue;
    const std::uint64_t bytes = step.gemm->outputs() * (step.gemm->output == MatmulOutput::bf16 ? 2 : 4);
    require_success(cudaMemcpyAsync(copy.to, step.gemm->d, bytes, cudaMemcpyDeviceToDevice, stream));
  }
}

}  // namespace mxcheck_kernels::sm90
