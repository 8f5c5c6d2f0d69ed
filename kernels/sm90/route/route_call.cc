#include "kernels/sm90/route/route_call.h"

#include <string>

namespace mxcheck_kernels::sm90 {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

Logits logits_type(DLDataType type) { return dtype_of("logits", type) == Dtype::bf16 ? Logits::bf16 : Logits::fp32; }

// Groups of a router of `experts` experts (0: not known); group-limited choice is queried with groups_kept 0.
void check_groups(const mxcheck_route_policy& p, std::int64_t experts) {
  if (p.groups < 0) invalid("policy.groups is " + text(p.groups) + ": must be 0 or more");
  if (p.groups == 0 && p.groups_kept != 0) {
    invalid("policy.groups_kept is " + text(p.groups_kept) + ": must be 0 without groups");
  }
  if (p.groups == 0 || experts == 0) return;
  if (p.groups > experts || experts % p.groups != 0) {
    invalid("policy.groups is " + text(p.groups) + ": must divide the " + text(experts) + " experts");
  }
  if (p.groups_kept < 1 || p.groups_kept > p.groups) {
    invalid("policy.groups_kept is " + text(p.groups_kept) + ": must be 1 to " + text(p.groups) + ", the groups");
  }
  const std::int64_t left = p.groups_kept * (experts / p.groups);
  if (p.top_k > left) {
    invalid("policy.top_k is " + text(p.top_k) + ": must be at most " + text(left) +
            ", the experts of the groups kept");
  }
}

void check_extents(const mxcheck_route_policy& p) {
  const std::int64_t tokens = p.policy.rows;
  const std::int64_t experts = p.policy.cols;
  if (tokens < 0) invalid("policy.rows is " + text(tokens) + " tokens: must be 0 or more");
  if (experts < 0) invalid("policy.cols is " + text(experts) + " experts: must be 0 or more");
  if (p.top_k < 0) invalid("policy.top_k is " + text(p.top_k) + ": must be 1 or more");
  if (tokens > INT32_MAX) unsupported(text(tokens) + " tokens are not offered: at most 2^31 - 1 are");
  if (experts > kMostExperts) unsupported(text(experts) + " experts are not offered: at most 4096 are");
  if (experts != 0 && (p.top_k < 1 || p.top_k > experts)) {
    invalid("policy.top_k is " + text(p.top_k) + ": must be 1 to " + text(experts) + ", the experts");
  }
  if (p.top_k > kMostKept) unsupported("a top_k of " + text(p.top_k) + " is not offered: at most 128 is");
  check_groups(p, experts);
}

}  // namespace

Router read_router(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_route_policy& p = route_policy(policy);
  require_no_blocks(*policy);
  require_flag("bias", p.bias);
  const RouterVariant& variant = router_variant_named(policy->recipe, false);
  Router r;
  r.score = variant.score, r.weights = variant.weights;
  r.type = logits_type(type);
  if (p.nan != MXCHECK_NAN_REFUSE && p.nan != MXCHECK_NAN_LAST) {
    invalid("policy.nan is " + text(p.nan) + ": must be 0 (refuse) or 1 (last)");
  }
  r.nan_refused = p.nan == MXCHECK_NAN_REFUSE;
  check_extents(p);
  r.tokens = static_cast<std::int32_t>(policy->rows), r.experts = static_cast<std::int32_t>(policy->cols);
  r.top_k = static_cast<std::int32_t>(p.top_k);
  if (r.experts != 0) {  // else groups have not been compared with anything
    r.groups = static_cast<std::int32_t>(p.groups), r.groups_kept = static_cast<std::int32_t>(p.groups_kept);
  }
  r.scale = p.scale;
  return r;
}

RouterInputs read_inputs(const mxcheck_call& call, bool bias_wanted) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("a router has one input or more: logits");
  RouterInputs in;
  Router& r = in.router;
  r = read_router(call.policy, call.inputs[0].dtype);
  if (r.experts == 0) invalid("policy.cols is 0 experts: must be 1 or more");
  const bool bf16 = r.type == Logits::bf16;
  in.tensors[0] = check_tensor("logits", call.inputs[0], bf16 ? kBf16Type : kFp32Type, 2, Strides::any);
  require_shape("logits", in.tensors[0], r.tokens, r.experts);
  r.logits = in.tensors[0].data, r.stride = in.tensors[0].stride;
  if (!bias_wanted || route_policy(call.policy).bias == 0) return in;
  if (call.num_inputs < 2) invalid("policy.bias is set, and there is no second input");
  in.count = 2;
  in.tensors[1] = check_tensor("bias", call.inputs[1], kFp32Type, 1, Strides::contiguous);
  require_shape("bias", in.tensors[1], 1, r.experts);
  r.bias = static_cast<const float*>(in.tensors[1].data);
  return in;
}

}  // namespace mxcheck_kernels::sm90
