// "route" and "route_backward" as calls, and the table of router operations. All throw Refusal.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>
#include <span>

#include "kernels/candidate_route.h"
#include "kernels/common/boundary.h"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/route/token_rounding_call.h"
#include "kernels/sm90/route/topk.h"

namespace mxcheck_kernels::sm90 {
namespace {

Checked check_routes(const char* name, const DLTensor& tensor, DLDataType type, const Router& r) {
  const Checked checked = check_tensor(name, tensor, type, 2, Strides::contiguous);
  require_shape(name, checked, r.tokens, r.top_k);
  return checked;
}

// The check's result is the workspace; what follows it in the stream looks there first.
void check_on_device(Router& r, const std::int32_t* experts, const mxcheck_call& call) {
  auto* const result = static_cast<CheckResult*>(call.workspace);
  require_success(launch_check(r, experts, result, report_of(call), stream_of(call)));
  r.stop = &result->status;
}

void route_supports(const mxcheck_policy* policy, DLDataType type) { (void)read_router(policy, type); }

std::uint64_t route_workspace(const mxcheck_call& call) {
  const mxcheck_route_policy& p = route_policy(call.policy);
  if (p.nan != MXCHECK_NAN_REFUSE) return 0;
  // A call that run() refuses needs no room for staging.
  const bool offered = p.policy.rows >= 0 && p.policy.rows <= INT32_MAX && p.top_k >= 0 && p.top_k <= kMostKept;
  return offered ? staged_bytes(p.policy.rows * p.top_k) : kCheckBytes;
}

void route_run(const mxcheck_call& call) {
  const int inputs = route_policy(call.policy).bias != 0 ? 2 : 1;
  check_call(call, inputs, inputs, 2);
  RouterInputs in = read_inputs(call);
  Router& r = in.router;
  const std::array outputs{check_routes("experts", call.outputs[0], kInt32Type, r),
                           check_routes("weights", call.outputs[1], kFp32Type, r)};
  require_disjoint(std::span(in.tensors, static_cast<std::size_t>(in.count)), outputs);
  require_workspace(call, route_workspace(call));
  auto* const experts = static_cast<std::int32_t*>(outputs[0].data);
  auto* const weights = static_cast<float*>(outputs[1].data);
  if (r.nan_refused && can_be_staged(r)) {
    require_success(topk_staged(r, experts, weights, call.workspace, report_of(call), stream_of(call)));
    return;
  }
  if (r.nan_refused) check_on_device(r, nullptr, call);
  require_success(topk(r, experts, weights, stream_of(call)));
}

// Groups and a bias are for choosing; the policy may name them.
void backward_supports(const mxcheck_policy* policy, DLDataType type) { (void)read_router(policy, type); }

std::uint64_t backward_workspace(const mxcheck_call&) { return kCheckBytes; }

void backward_run(const mxcheck_call& call) {
  check_call(call, 3, 3, 1);
  const RouterInputs in = read_inputs(call, false);
  BackwardJob job;
  job.router = in.router;
  Router& r = job.router;
  const Checked experts = check_routes("experts", call.inputs[1], kInt32Type, r);
  const Checked gradient = check_routes("gradient", call.inputs[2], kFp32Type, r);
  const DLDataType type = r.type == Logits::bf16 ? kBf16Type : kFp32Type;
  const Checked out = check_tensor("gradient of logits", call.outputs[0], type, 2, Strides::contiguous);
  require_shape("gradient of logits", out, r.tokens, r.experts);
  require_disjoint(std::array{in.tensors[0], experts, gradient}, std::array{out});
  require_workspace(call, kCheckBytes);
  job.experts = static_cast<const std::int32_t*>(experts.data);
  job.gradient = static_cast<const float*>(gradient.data);
  job.out = out.data;
  check_on_device(r, job.experts, call);
  require_success(launch_backward(job, stream_of(call)));
}

// An operation of this name: kCheck says what is offered, kRun runs it, kWorkspace says how many bytes it needs.
template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o = make_cuda_operation<kCheck, kRun, kWorkspace>(name);
  o.max_rows = INT32_MAX, o.max_cols = kMostExperts;
  return o;
}

constexpr std::array kOperations{
    operation<route_supports, route_run, route_workspace>("route"),
    operation<token_rounding_supports, token_rounding_run, token_rounding_workspace>("route_round"),
    operation<metadata_supports, metadata_run, metadata_workspace>("route_metadata"),
    operation<backward_supports, backward_run, backward_workspace>("route_backward"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_route", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
