#include "kernels/sm90/route/metadata/metadata.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/route/metadata/job.h"
#include "kernels/sm90/route/router.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr std::int64_t kMostRows = INT32_MAX;

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  invalid(std::string(name) + " is " + std::to_string(value) + ": must be " + std::to_string(least) + " to " +
          std::to_string(most));
}

std::int64_t up_to(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Sizes, from the policy and, where token_offsets are given, the shape of slot_experts.
MetadataJob read_job(const mxcheck_call& call) {
  const mxcheck_route_policy& p = route_policy(call.policy);
  require_no_blocks(p.policy);
  MetadataJob job;
  check_range("policy.rows", p.policy.rows, 0, kMostRows);
  check_range("policy.top_k", p.top_k, 0, kMostRows);
  check_range("policy.cols", p.policy.cols, 0, kMostRows);
  if (p.policy.cols > kMostExperts) {
    unsupported(std::to_string(p.policy.cols) + " experts are not offered: at most " + std::to_string(kMostExperts));
  }
  job.tokens = p.policy.rows, job.experts = p.policy.cols, job.width = p.top_k, job.tile = p.tile;
  check_call(call, job.width == 0 ? 2 : 1, job.width == 0 ? 2 : 1, 6);
  job.slots = job.tokens * job.width;
  if (job.width == 0) {
    const DLTensor& slots = call.inputs[0];
    if (slots.ndim != 1 || slots.shape == nullptr) invalid("slot_experts must have one dimension");
    job.slots = slots.shape[0];
  }
  check_range("the number of slots", job.slots, 0, kMostRows);
  // With a tile of at most 2^31 the product is below 2^44.
  check_range("policy.tile", job.tile, 1, std::int64_t{1} << 31);
  job.capacity = job.slots + job.experts * (job.tile - 1);
  if (job.capacity > kMostRows) invalid(std::to_string(job.capacity) + " rows: at most 2^31 - 1 are possible");
  job.run = std::max(kPlaceSlots, up_to((job.slots + kMostRuns - 1) / kMostRuns, kPlaceSlots));
  job.runs = std::max(std::int64_t{1}, (job.slots + job.run - 1) / job.run);
  return job;
}

constexpr std::int64_t kPiece = 256;

std::uint64_t lay_out(MetadataJob& job, void* memory) {
  const std::int64_t count_at = kPiece;
  const std::int64_t before_at = count_at + up_to(job.experts * 4, kPiece);
  const std::int64_t bytes = before_at + up_to(job.experts * job.runs * 4, kPiece);
  if (memory != nullptr) {
    auto* base = static_cast<std::byte*>(memory);
    job.wrong = reinterpret_cast<unsigned long long*>(base);
    job.count = reinterpret_cast<std::uint32_t*>(base + count_at);
    job.before = reinterpret_cast<std::uint32_t*>(base + before_at);
  }
  return static_cast<std::uint64_t>(bytes);
}

Checked read(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t count) {
  const Checked checked = check_tensor(name, tensor, type, 1, Strides::contiguous);
  require_shape(name, checked, 1, count);
  return checked;
}

std::int32_t* words(const Checked& tensor) { return static_cast<std::int32_t*>(tensor.data); }

}  // namespace

void metadata_supports(const mxcheck_policy* policy, DLDataType /*type*/) {
  require_no_blocks(route_policy(policy).policy);
}

std::uint64_t metadata_workspace(const mxcheck_call& call) {
  MetadataJob job = read_job(call);
  return lay_out(job, nullptr);
}

void metadata_run(const mxcheck_call& call) {
  MetadataJob job = read_job(call);
  std::array<Checked, 2> inputs{read("slot_experts", call.inputs[0], kInt32Type, job.slots)};
  if (job.width == 0) inputs[1] = read("token_offsets", call.inputs[1], kInt64Type, job.tokens + 1);
  const std::array outputs{
      read("counts", call.outputs[0], kInt32Type, job.experts),
      read("offsets", call.outputs[1], kInt64Type, job.experts + 1),
      read("row_slot", call.outputs[2], kInt32Type, job.capacity),
      read("row_token", call.outputs[3], kInt32Type, job.capacity),
      read("row_expert", call.outputs[4], kInt32Type, job.capacity),
      read("slot_row", call.outputs[5], kInt32Type, job.slots),
  };
  require_disjoint(inputs, outputs);
  require_workspace(call, lay_out(job, call.workspace));
  job.slot_experts = words(inputs[0]);
  job.token_offsets = static_cast<const std::int64_t*>(inputs[1].data);
  job.report = report_of(call);
  job.counts = words(outputs[0]);
  job.offsets = static_cast<std::int64_t*>(outputs[1].data);
  job.row_slot = words(outputs[2]), job.row_token = words(outputs[3]), job.row_expert = words(outputs[4]);
  job.slot_row = words(outputs[5]);
  require_success(launch_metadata(job, stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
