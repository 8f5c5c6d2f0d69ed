#include "kernels/cpu/route/policy.h"

#include <limits>
#include <string>

#include "kernels/common/arguments.h"
#include "kernels/common/refusal.h"

namespace mxcheck_kernels::cpu {
namespace {

void require_within(const char* field, std::int64_t value, std::int64_t least, std::int64_t most, const char* which) {
  if (value >= least && value <= most) return;
  invalid("policy." + std::string(field) + " is " + std::to_string(value) + ": must be " + std::to_string(least) +
          " to " + std::to_string(most) + which);
}

void check_groups(const mxcheck_route_policy& p) {
  if (p.groups == 0) {
    if (p.groups_kept != 0)
      invalid("policy.groups_kept is " + std::to_string(p.groups_kept) + ": must be 0 without groups");
    return;
  }
  require_within("groups", p.groups, 1, p.policy.cols, ", the experts; 0 for none");
  if (p.policy.cols % p.groups != 0) {
    invalid("policy.groups is " + std::to_string(p.groups) + ": must divide the experts, " +
            std::to_string(p.policy.cols));
  }
  require_within("groups_kept", p.groups_kept, 1, p.groups, ", the groups");
  const std::int64_t room = p.policy.cols / p.groups * p.groups_kept;
  require_within("top_k", p.top_k, 1, room, ", the experts of the groups kept");
}

}  // namespace

RoutePlan read_route_policy(RouteOperation operation, const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_route_policy& p = route_policy(policy);
  if (policy->threads < 0) invalid("policy.threads is " + std::to_string(policy->threads) + ": must be 0 or more");
  require_no_blocks(*policy);
  RoutePlan plan;
  if (operation == RouteOperation::route_metadata) return plan;
  const RouterVariant& variant = router_variant_named(policy->recipe, true);
  plan.score = variant.score;
  plan.weight = variant.weights;
  plan.packed = variant.packed;
  plan.dtype = dtype_of("logits", type);
  if (p.nan != MXCHECK_NAN_REFUSE && p.nan != MXCHECK_NAN_LAST) {
    unsupported("nan " + std::to_string(p.nan) + " is not offered: offered are 0 (refuse), 1 (last)");
  }
  plan.nan_last = p.nan == MXCHECK_NAN_LAST;
  plan.scale = p.scale;
  require_flag("bias", p.bias);
  if (operation == RouteOperation::route_round) {
    require_flag("renormalize", p.renormalize);
    plan.rule = token_rounding_rule_named(p.rule);
  }
  return plan;
}

const mxcheck_route_policy& check_route_numbers(RouteOperation operation, const mxcheck_policy* policy,
                                                const RoutePlan& plan) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // tokens and experts are int32
  const mxcheck_route_policy& p = route_policy(policy);
  require_within("rows", policy->rows, 0, kMost, ", the tokens");
  require_within("cols", policy->cols, 1, kMost, ", the experts");
  if (operation == RouteOperation::route_metadata) {
    require_within("top_k", p.top_k, 0, kMost, "; 0 with token_offsets");
  } else {
    require_within("top_k", p.top_k, 1, policy->cols, ", the experts");
    check_groups(p);
    if (plan.packed) require_within("cols", policy->cols, 1, std::int64_t{1} << 23, ", the experts of a packed order");
  }
  const bool rounds = operation == RouteOperation::route_round && rounds_to_tiles(plan.rule);
  if (rounds || operation == RouteOperation::route_metadata)
    require_within("tile", p.tile, 1, std::numeric_limits<std::int64_t>::max(), ", rows");
  if (operation == RouteOperation::route_round && has_capacity(plan.rule) && p.capacity < 0) {
    invalid("policy.capacity is " + std::to_string(p.capacity) + ": must be 0 or more");
  }
  return p;
}

}  // namespace mxcheck_kernels::cpu
