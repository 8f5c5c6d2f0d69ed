// The table of a layer's passes.

#include "kernels/candidate_kept_weights.h"

#include <array>
#include <cstdint>

#include "kernels/common/boundary.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/moe/moe_call.h"
#include "kernels/sm90/moe/moe_plan.h"

namespace mxcheck_kernels::sm90 {
namespace {

using MakePlan = MoePlan (*)(const mxcheck_call&);

template <MakePlan kPlan>
std::uint64_t workspace(const mxcheck_call& call) {
  mxcheck_call shapes = call;
  shapes.workspace = nullptr;  // tensors may have no data yet
  const MoePlan plan = kPlan(shapes);
  return plan.asks_for_kept_bytes ? plan.kept_bytes : plan.workspace_bytes;
}

template <MakePlan kPlan>
void check(const mxcheck_policy* policy, DLDataType wide) {
  check_moe_policy(policy, wide, kPlan == moe_backward_plan);
}

template <MakePlan kPlan>
void run(const mxcheck_call& call) {
  const MoePlan plan = kPlan(call);
  require_workspace(call, plan.workspace_bytes);
  for (const MoeStep& step : plan.steps) require_success(step.enqueue(stream_of(call)));
}

template <MakePlan kPlan>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o =
      make_cuda_operation<check<kPlan>, run<kPlan>, workspace<kPlan>>(name, MXCHECK_KEPT_WEIGHTS_CONTRACT);
  o.max_rows = INT32_MAX, o.max_cols = INT32_MAX / 8 * 8;
  o.cols_multiple = 8;
  return o;
}

constexpr std::array kOperations{
    operation<moe_forward_plan>("moe_forward"),
    operation<moe_backward_plan>("moe_backward"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_moe", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
