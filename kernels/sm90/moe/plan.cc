#include "kernels/sm90/moe/plan.h"

#include <array>

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/moe/passes.h"

namespace mxcheck_kernels::sm90 {
namespace {

using Pass = MoePlan (*)(const MoeCall&);

std::array<Pass, 2> passes_of(const MoeRecipe& recipe) {
  if (recipe.fp8()) return {forward_of_codes, backward_of_codes};
  return {forward_of_values, backward_of_values};
}

MoePlan plan_of(const mxcheck_call& call, bool backward) {
  const MoeCall checked = read_moe_call(call, backward);
  MoePlan plan = passes_of(*checked.recipe)[backward ? 1 : 0](checked);
  if (call.workspace != nullptr) require_workspace(call, plan.workspace_bytes);
  return plan;
}

}  // namespace

MoePlan moe_forward_plan(const mxcheck_call& call) { return plan_of(call, false); }
MoePlan moe_backward_plan(const mxcheck_call& call) { return plan_of(call, true); }

}  // namespace mxcheck_kernels::sm90
