#include "kernels/sm90/route/token_rounding_call.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/route/route_call.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::int64_t kMostRows = INT32_MAX;

TokenRoundingScore score_of(const Router& router, TokenRoundingRule rule) {
  if (rule == TokenRoundingRule::none) return TokenRoundingScore::none;
  if (router.score == Score::sigmoid) return TokenRoundingScore::sigmoid;
  return router.score == Score::sqrtsoftplus ? TokenRoundingScore::sqrtsoftplus : TokenRoundingScore::softmax;
}

std::int64_t rows_at_most(const TokenRoundingJob& job) {
  const std::int64_t tokens = job.router.tokens;
  const std::int64_t experts = job.router.experts;
  const std::int64_t slots = slots_of(job.router);
  if (slots > kMostRows) invalid(std::to_string(slots) + " routes: at most 2^31 - 1 are possible");
  std::int64_t rows = slots;
  if (job.rule == TokenRoundingRule::expert_choice) rows = experts * std::min(job.limit, tokens);
  // Beyond tokens the tile makes no difference to the smaller of the two.
  if (rounds_to_tiles(job.rule)) rows = std::min(tokens * experts, slots + experts * std::min(job.tile - 1, tokens));
  if (rows > kMostRows) invalid(std::to_string(rows) + " rows: at most 2^31 - 1 are possible");
  return rows;
}

// The job that the policy describes; the router without its tensors.
TokenRoundingJob read_job(const mxcheck_policy* policy, DLDataType type) {
  const mxcheck_route_policy& p = route_policy(policy);
  TokenRoundingJob job;
  job.router = read_router(policy, type);
  job.rule = token_rounding_rule_named(p.rule);
  require_flag("renormalize", p.renormalize);
  job.score = score_of(job.router, job.rule);
  job.renormalize = p.renormalize != 0;
  job.tile = p.tile, job.limit = p.capacity;
  job.seed = p.seed, job.step = p.step, job.layer = p.layer;
  return job;
}

TokenRoundingJob read_job(const mxcheck_call& call) {
  if (call.num_inputs < 1 || call.inputs == nullptr) invalid("inputs are missing: the first must be the logits");
  TokenRoundingJob job = read_job(call.policy, call.inputs[0].dtype);
  if (rounds_to_tiles(job.rule) && job.tile < 1) {
    invalid("policy.tile is " + std::to_string(job.tile) + ": must be 1 or more");
  }
  if (has_capacity(job.rule) && job.limit < 0) {
    invalid("policy.capacity is " + std::to_string(job.limit) + ": must be 0 or more");
  }
  job.capacity = rows_at_most(job);
  job.padded_tokens = (std::int64_t{job.router.tokens} + 31) / 32 * 32;
  return job;
}

// Cuts the workspace into pieces of whole 256 bytes. What begins as zeros comes first.
struct Layout {
  std::uint64_t used = 0;
  std::byte* base = nullptr;

  template <class T>
  T* take(std::int64_t count) {
    T* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used += (static_cast<std::uint64_t>(count) * sizeof(T) + 255) / 256 * 256;
    return piece;
  }
};

struct Workspace {
  CheckResult* check = nullptr;
  std::uint64_t zeros = 0;  // bytes from job.ticket on
  std::uint64_t bytes = 0;
};

Workspace lay_out(TokenRoundingJob& job, void* memory) {
  const Router& r = job.router;
  const std::int64_t experts = r.experts;
  Layout layout{0, static_cast<std::byte*>(memory)};
  Workspace w;
  job.ticket = layout.take<std::uint32_t>(1);
  job.count = layout.take<std::uint32_t>(experts);
  job.word_rows = layout.take<std::uint32_t>(job.padded_tokens / 32);
  w.zeros = layout.used;
  w.check = reinterpret_cast<CheckResult*>(layout.take<std::byte>(kCheckBytes));
  job.target = layout.take<std::uint32_t>(experts);
  job.slot_expert = layout.take<std::int32_t>(slots_of(r));
  if (job.rule == TokenRoundingRule::none) job.slot_weight = layout.take<float>(slots_of(r));
  if (job.rule != TokenRoundingRule::none) {
    job.keys = layout.take<std::uint32_t>(experts * job.padded_tokens);
    job.most = layout.take<std::int32_t>(experts * (job.padded_tokens >> key_tile_shift(r.experts)));
  }
  job.chose = layout.take<std::uint32_t>(experts * (job.padded_tokens / 32));
  job.kept = layout.take<KeptWord>(experts * (job.padded_tokens / 32));
  job.rows_before = layout.take<std::int64_t>(job.padded_tokens / 32);
  job.pair_expert = layout.take<std::int32_t>(job.capacity);
  if (job.rule == TokenRoundingRule::nr_s && job.tile > kSharedBoundary && job.tile <= r.tokens) {
    job.boundary = layout.take<std::uint32_t>(experts * job.tile);
  }
  w.bytes = layout.used;
  return w;
}

Checked read_output(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t count) {
  const Checked checked = check_tensor(name, tensor, type, 1, Strides::contiguous);
  require_shape(name, checked, 1, count);
  return checked;
}

}  // namespace

void token_rounding_supports(const mxcheck_policy* policy, DLDataType type) { (void)read_job(policy, type); }

std::uint64_t token_rounding_workspace(const mxcheck_call& call) {
  TokenRoundingJob job = read_job(call);
  return lay_out(job, nullptr).bytes;
}

void token_rounding_run(const mxcheck_call& call) {
  TokenRoundingJob job = read_job(call);
  const int given = 1 + (route_policy(call.policy).bias != 0 ? 1 : 0);
  check_call(call, given, given, 6);
  const RouterInputs inputs = read_inputs(call);
  job.router = inputs.router;
  const std::int64_t tokens = job.router.tokens;
  const std::int64_t experts = job.router.experts;
  const std::array outputs{
      read_output("chosen", call.outputs[0], kInt32Type, experts),
      read_output("offsets", call.outputs[1], kInt64Type, experts + 1),
      read_output("row_token", call.outputs[2], kInt32Type, job.capacity),
      read_output("row_weight", call.outputs[3], kFp32Type, job.capacity),
      read_output("token_offsets", call.outputs[4], kInt64Type, tokens + 1),
      read_output("token_rows", call.outputs[5], kInt32Type, job.capacity),
  };
  require_disjoint({inputs.tensors, static_cast<std::size_t>(inputs.count)}, outputs);
  const Workspace w = lay_out(job, call.workspace);
  require_workspace(call, w.bytes);
  job.chosen = static_cast<std::int32_t*>(outputs[0].data);
  job.offsets = static_cast<std::int64_t*>(outputs[1].data);
  job.row_token = static_cast<std::int32_t*>(outputs[2].data);
  job.row_weight = static_cast<float*>(outputs[3].data);
  job.token_offsets = static_cast<std::int64_t*>(outputs[4].data);
  job.token_rows = static_cast<std::int32_t*>(outputs[5].data);

  const cudaStream_t stream = stream_of(call);
  require_success(cudaMemsetAsync(job.ticket, 0, w.zeros, stream));
  if (job.router.nan_refused) {
    require_success(launch_check(job.router, nullptr, w.check, report_of(call), stream));
    job.router.stop = &w.check->status;
  }
  if (tokens != 0) require_success(topk(job.router, job.slot_expert, job.slot_weight, stream));
  require_success(launch_token_rounding_keys(job, stream));
  require_success(launch_token_rounding_select(job, stream));
  require_success(launch_token_rounding_rows(job, stream));
}

}  // namespace mxcheck_kernels::sm90
