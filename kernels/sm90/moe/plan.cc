#include "kernels/sm90/moe/plan.h"

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/moe/passes.h"

namespace mxcheck_kernels::sm90 {
namespace {

MoePlan plan_of(const mxcheck_call& call, bool backward) {
  const MoeCall checked = read_moe_call(call, backward);
  MoePlan plan = backward ? backward_of_values(checked) : forward_of_values(checked);
  if (call.workspace != nullptr) require_workspace(call, plan.workspace_bytes);
  return plan;
}

}  // namespace

MoePlan moe_forward_plan(const mxcheck_call& call) { return plan_of(call, false); }
MoePlan moe_backward_plan(const mxcheck_call& call) { return plan_of(call, true); }

}  // namespace mxcheck_kernels::sm90
