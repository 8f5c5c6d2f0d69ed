#include "kernels/cpu/route/arguments.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/refusal.h"
#include "kernels/cpu/arguments.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/route/policy.h"
#include "kernels/cpu/route/rows.h"

namespace mxcheck_kernels::cpu {
namespace {

// Rounding to nearest and subnormals kept, whatever the caller has set; threads started meanwhile inherit it.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&callers_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t callers_{};
};

// A router's work grows with its logits, at about an FP32 number each.
std::int64_t row_parts(const LogitRows& rows, std::int32_t threads) {
  return part_count(rows.tokens, rows.tokens * rows.experts * 4, threads);
}

// Nothing that the router refuses is among the logits.
void refuse_logits(const LogitRows& rows, std::int32_t threads) {
  if (!rows.plan.refuses_nan()) return;
  std::atomic<std::int64_t> first{std::numeric_limits<std::int64_t>::max()};
  for_each_part(rows.tokens, row_parts(rows, threads), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = first_refused(rows, begin, end);
    std::int64_t seen = first;
    while (at >= 0 && at < seen && !first.compare_exchange_weak(seen, at)) {
    }
  });
  if (first == std::numeric_limits<std::int64_t>::max()) return;
  const std::string place =
      "logits[" + std::to_string(first / rows.experts) + ", " + std::to_string(first % rows.experts) + "]";
  if (rows.plan.packed) {
    invalid(place + (rows.bias == nullptr ? "" : " with its bias") + " is NaN or infinite: must be finite for " +
            "topk-softmax-packed");
  }
  invalid(place + " is NaN: must be a number, or policy.nan 1 (last)");
}

void refuse_bias(const LogitRows& rows) {
  if (rows.bias == nullptr || rows.plan.nan_last) return;
  const float* const end = rows.bias + rows.experts;
  const float* const bad = std::find_if(rows.bias, end, [](float b) { return std::isnan(b); });
  if (bad == end) return;
  invalid("bias[" + std::to_string(bad - rows.bias) + "] is NaN: must be a number, or policy.nan 1 (last)");
}

LogitRows logit_rows(const mxcheck_route_policy& policy, const RoutePlan& plan, const Checked& logits) {
  return {plan, logits.data, logits.stride, policy.policy.rows, policy.policy.cols, policy.top_k, nullptr};
}

// The arguments of route and route_round: logits and, where there is one, the bias.
struct RouterInputs {
  RoutePlan plan;
  const mxcheck_route_policy* policy = nullptr;
  std::array<Checked, 2> tensors;
  RouteJob job;
};

RouterInputs router_inputs(RouteOperation operation, const mxcheck_call& call, int outputs) {
  RouterInputs in;
  in.plan = read_router_call(operation, call);
  in.policy = &check_route_numbers(operation, call.policy, in.plan);
  const bool biased = in.policy->bias != 0;
  check_call(call, biased ? 2 : 1, biased ? 2 : 1, outputs, biased ? ", logits, bias" : ", logits");
  const std::int64_t experts = in.policy->policy.cols;
  in.tensors[0] = check_logits("logits", call.inputs[0], *in.policy, in.plan.dtype, Strides::any);
  if (biased) {
    in.tensors[1] = check_vector("bias", call.inputs[1], kFp32Type, experts);
  }
  in.job.rows = logit_rows(*in.policy, in.plan, in.tensors[0]);
  in.job.rows.bias = static_cast<const float*>(in.tensors[1].data);
  in.job.groups = in.policy->groups;
  in.job.groups_kept = in.policy->groups_kept;
  return in;
}

void refuse_values(const RouterInputs& in) {
  refuse_logits(in.job.rows, in.policy->policy.threads);
  refuse_bias(in.job.rows);
}

// work(space, begin, end) over the tokens. What it needs is taken before `work` is called first.
template <class Work>
void each_token_part(const LogitRows& rows, std::int32_t threads, bool scores, const Work& work) {
  const std::int64_t parts = row_parts(rows, threads);
  std::vector<RowSpace> spaces = row_spaces(parts, rows.experts, scores);
  std::atomic<std::size_t> taken{0};
  for_each_part(rows.tokens, parts, [&](std::int64_t begin, std::int64_t end) { work(spaces[taken++], begin, end); });
}

// Rows that route_round has room for.
std::int64_t round_capacity(const mxcheck_route_policy& policy, TokenRoundingRule rule) {
  using Int128 = __int128;
  const Int128 tokens = policy.policy.rows;
  const Int128 experts = policy.policy.cols;
  const Int128 routes = tokens * policy.top_k;
  Int128 rows = routes;
  if (rule == TokenRoundingRule::expert_choice) rows = experts * std::min<Int128>(policy.capacity, tokens);
  if (rounds_to_tiles(rule)) rows = std::min(tokens * experts, routes + experts * (Int128{policy.tile} - 1));
  int32_rows(routes);
  return int32_rows(rows);
}

}  // namespace

void run_route(const mxcheck_call& call) {
  const DefaultArithmetic arithmetic;
  RouterInputs in = router_inputs(RouteOperation::route, call, 2);
  const std::int64_t tokens = in.job.rows.tokens;
  const std::int64_t k = in.job.rows.top_k;
  const Checked experts = check_matrix("experts", call.outputs[0], kInt32Type, tokens, k);
  const Checked weights = check_matrix("weights", call.outputs[1], kFp32Type, tokens, k);
  require_disjoint(in.tensors, std::array{experts, weights});
  refuse_values(in);
  in.job.chosen = static_cast<std::int32_t*>(experts.data);
  in.job.weights = static_cast<float*>(weights.data);
  each_token_part(
      in.job.rows, in.policy->policy.threads, false,
      [&](RowSpace& space, std::int64_t begin, std::int64_t end) { route_rows(in.job, space, begin, end); });
}

void run_route_round(const mxcheck_call& call) {
  const DefaultArithmetic arithmetic;
  RouterInputs in = router_inputs(RouteOperation::route_round, call, 6);
  const std::int64_t tokens = in.job.rows.tokens;
  const std::int64_t experts = in.job.rows.experts;
  const std::int64_t capacity = round_capacity(*in.policy, in.plan.rule);
  const DLTensor* const out = call.outputs;
  const std::array outputs{check_vector("chosen", out[0], kInt32Type, experts),
                           check_vector("offsets", out[1], kInt64Type, experts + 1),
                           check_vector("row_token", out[2], kInt32Type, capacity),
                           check_vector("row_weight", out[3], kFp32Type, capacity),
                           check_vector("token_offsets", out[4], kInt64Type, tokens + 1),
                           check_vector("token_rows", out[5], kInt32Type, capacity)};
  require_disjoint(in.tensors, outputs);
  refuse_values(in);

  const std::size_t routes = static_cast<std::size_t>(tokens * in.job.rows.top_k);
  std::vector<std::int32_t> choices(routes);
  std::vector<float> weights(routes);
  const bool with_scores = in.plan.rule != TokenRoundingRule::none;
  // Whole cache lines and an odd number of them: columns of experts do not fall on one another in the caches.
  const std::int64_t stride = ((tokens + kScoreTokens - 1) / kScoreTokens | 1) * kScoreTokens;
  const auto scores = std::make_unique_for_overwrite<float[]>(
      with_scores ? static_cast<std::size_t>(stride) * static_cast<std::size_t>(experts) : 0);
  in.job.chosen = choices.data();
  in.job.weights = weights.data();
  in.job.scores = with_scores ? scores.get() : nullptr;
  in.job.score_stride = stride;
  each_token_part(
      in.job.rows, in.policy->policy.threads, with_scores,
      [&](RowSpace& space, std::int64_t begin, std::int64_t end) { route_rows(in.job, space, begin, end); });
  round_tokens({in.policy, in.plan, choices.data(), weights.data(), scores.get(), stride, capacity,
                static_cast<std::int32_t*>(outputs[0].data), static_cast<std::int64_t*>(outputs[1].data),
                static_cast<std::int32_t*>(outputs[2].data), static_cast<float*>(outputs[3].data),
                static_cast<std::int64_t*>(outputs[4].data), static_cast<std::int32_t*>(outputs[5].data)});
}

void run_route_metadata(const mxcheck_call& call) {
  const RoutePlan plan = read_router_call(RouteOperation::route_metadata, call);
  const mxcheck_route_policy& policy = check_route_numbers(RouteOperation::route_metadata, call.policy, plan);
  const bool by_offsets = policy.top_k == 0;
  check_call(call, by_offsets ? 2 : 1, by_offsets ? 2 : 1, 6,
             by_offsets ? ", slot_experts, token_offsets" : ", slot_experts");
  const std::int64_t tokens = policy.policy.rows;
  const std::int64_t experts = policy.policy.cols;
  const std::int64_t fixed_slots = tokens * policy.top_k;  // both int32
  const Checked slot_experts = by_offsets
                                   ? check_tensor("slot_experts", call.inputs[0], kInt32Type, 1, Strides::contiguous)
                                   : check_vector("slot_experts", call.inputs[0], kInt32Type, fixed_slots);
  const std::int64_t slots = slot_experts.cols;
  Checked token_offsets;
  if (by_offsets) token_offsets = check_vector("token_offsets", call.inputs[1], kInt64Type, tokens + 1);
  const std::int64_t capacity = int32_rows(__int128{slots} + __int128{experts} * (__int128{policy.tile} - 1));
  const DLTensor* const out = call.outputs;
  const std::array outputs{check_vector("counts", out[0], kInt32Type, experts),
                           check_vector("offsets", out[1], kInt64Type, experts + 1),
                           check_vector("row_slot", out[2], kInt32Type, capacity),
                           check_vector("row_token", out[3], kInt32Type, capacity),
                           check_vector("row_expert", out[4], kInt32Type, capacity),
                           check_vector("slot_row", out[5], kInt32Type, slots)};
  require_disjoint(std::array{slot_experts, token_offsets}, outputs);
  const MetadataJob job{tokens,
                        experts,
                        policy.top_k,
                        policy.tile,
                        slots,
                        capacity,
                        policy.policy.threads,
                        static_cast<const std::int32_t*>(slot_experts.data),
                        static_cast<const std::int64_t*>(token_offsets.data),
                        static_cast<std::int32_t*>(outputs[0].data),
                        static_cast<std::int64_t*>(outputs[1].data),
                        static_cast<std::int32_t*>(outputs[2].data),
                        static_cast<std::int32_t*>(outputs[3].data),
                        static_cast<std::int32_t*>(outputs[4].data),
                        static_cast<std::int32_t*>(outputs[5].data)};
  refuse_experts("slot_experts", job.slot_experts, slots, experts);
  if (by_offsets) refuse_token_offsets(job.token_offsets, tokens, slots);
  make_metadata(job);
}

void run_route_backward(const mxcheck_call& call) {
  const DefaultArithmetic arithmetic;
  const RoutePlan plan = read_router_call(RouteOperation::route_backward, call);
  const mxcheck_route_policy& policy = check_route_numbers(RouteOperation::route_backward, call.policy, plan);
  check_call(call, 3, 3, 1, ", logits, experts, gradient");
  const std::int64_t tokens = policy.policy.rows;
  const Checked logits = check_logits("logits", call.inputs[0], policy, plan.dtype, Strides::any);
  const Checked experts = check_matrix("experts", call.inputs[1], kInt32Type, tokens, policy.top_k);
  const Checked gradient = check_matrix("gradient", call.inputs[2], kFp32Type, tokens, policy.top_k);
  const Checked out = check_logits("gradient of the logits", call.outputs[0], policy, plan.dtype, Strides::contiguous);
  require_disjoint(std::array{logits, experts, gradient}, std::array{out});
  const BackwardJob job{logit_rows(policy, plan, logits), static_cast<const std::int32_t*>(experts.data),
                        static_cast<const float*>(gradient.data), out.data};
  refuse_logits(job.rows, policy.policy.threads);
  refuse_experts("experts", job.experts, tokens * policy.top_k, policy.policy.cols);
  refuse_twice("experts", job.experts, tokens, policy.top_k, policy.policy.cols);
  each_token_part(job.rows, policy.policy.threads, false, [&](RowSpace& space, std::int64_t begin, std::int64_t end) {
    backward_rows(job, space, begin, end);
  });
}

}  // namespace mxcheck_kernels::cpu
