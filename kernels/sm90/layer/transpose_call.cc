// "quantize_transposed" and "aggregate" as calls.

#include <string>

#include "kernels/common/layer/policy.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/layer/operations.h"
#include "kernels/sm90/layer/steps/aggregate.h"
#include "kernels/sm90/layer/steps/columns.h"
#include "kernels/sm90/layer/steps/experts.h"

namespace mxcheck_kernels::sm90 {
namespace {

DLDataType first_type(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input");
  return call.inputs[0].dtype;
}

struct TransposeParts {
  TransposePlan plan;
  PlanJob experts;
  PlanSpace at;
};

TransposeParts parts_of(const mxcheck_call& call, Space& space) {
  TransposeParts x;
  x.plan = read_transpose_policy(call.policy, first_type(call));
  require_extents(*call.policy);
  x.experts.rows = call.policy->rows;
  x.experts.block = x.plan.coding.block;
  PlanJob sizes = x.experts;  // what is not null is there, for the sizes alone
  static constexpr std::int64_t kSome = 0;
  static constexpr std::int32_t kSomeIndex = 0;
  for (int i = 1; i < call.num_inputs; ++i) {
    if (same(call.inputs[i].dtype, kInt32Type)) {
      sizes.index = &kSomeIndex;
    } else if (experts_of(call.inputs[i]) >= 0) {
      sizes.offsets = &kSome, sizes.experts = x.experts.experts = experts_of(call.inputs[i]);
    }
  }
  x.at = take_plan(sizes, space);
  return x;
}

}  // namespace

void check_transpose(const mxcheck_policy* policy, DLDataType type) { read_transpose_policy(policy, type); }

std::uint64_t transpose_workspace(const mxcheck_call& call) {
  Space space(nullptr);
  parts_of(call, space);
  return space.bytes();
}

void run_transpose(const mxcheck_call& call) {
  Space space(call.workspace);
  TransposeParts x = parts_of(call, space);
  const TransposeTensors t = read_transpose(call, x.plan, check_tensor);
  if (t.has_offsets && t.offsets.cols == 1 && t.rows != 0)
    invalid("offsets holds one value, no expert, and there are rows");
  require_workspace(call, space.bytes());
  if (t.has_offsets) {
    x.experts.offsets = static_cast<const std::int64_t*>(t.offsets.data);
    x.experts.bands = t.out.scales.cols;
  }
  if (t.has_index) x.experts.index = static_cast<const std::int32_t*>(t.index.data);
  x.experts.source_rows = t.x.rows;
  x.experts.report = report_of(call);
  TransposeJob job;
  job.rows = enqueue_plan(x.experts, x.at, stream_of(call));
  job.x = t.x.data, job.dtype = x.plan.dtype, job.stride = t.x.stride, job.cols = t.cols;
  job.index = x.experts.index;
  job.out = {static_cast<std::uint8_t*>(t.out.codes.data), t.out.scales.data, t.out.scales.cols,
             device_coding(x.plan.coding)};
  const bool vector = t.cols % kEach == 0 && t.x.stride % kEach == 0 && is_aligned(t.x.data, 16);
  require_success(launch_transpose(job, vector, stream_of(call)));
}

void check_aggregate(const mxcheck_policy* policy, DLDataType type) { read_aggregate_policy(policy, type); }

std::uint64_t aggregate_workspace(const mxcheck_call& call) {
  read_aggregate_policy(call.policy, first_type(call));
  return kHeaderBytes;
}

void run_aggregate(const mxcheck_call& call) {
  const bool weighted = read_aggregate_policy(call.policy, first_type(call));
  require_extents(*call.policy);
  const AggregateTensors t = read_aggregate(call, weighted, check_tensor);
  require_workspace(call, kHeaderBytes);
  auto* const header = static_cast<PlanHeader*>(call.workspace);
  AggregateJob job;
  job.y = static_cast<const std::uint16_t*>(t.y.data);
  if (weighted) job.weights = static_cast<const float*>(t.weights.data);
  job.token_offsets = static_cast<const std::int64_t*>(t.token_offsets.data);
  job.token_rows = static_cast<const std::int32_t*>(t.token_rows.data);
  job.o = static_cast<std::uint16_t*>(t.o.data);
  job.tokens = t.tokens, job.cols = t.cols, job.header = header;
  require_success(
      check_slots({t.tokens, t.token_rows.cols, t.y.rows, job.token_offsets, job.token_rows, report_of(call)}, header,
                  stream_of(call)));
  require_success(launch_aggregate(job, t.cols % kEach == 0 && is_aligned(t.y.data, 16) && is_aligned(t.o.data, 16),
                                   stream_of(call)));
}

}  // namespace mxcheck_kernels::sm90
