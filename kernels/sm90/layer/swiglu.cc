// "swiglu" and "swiglu_backward": which kernels a call takes, and what they hand one another in the workspace.

#include <string>

#include "kernels/common/layer/policy.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/layer/operations.h"
#include "kernels/sm90/layer/steps/columns.h"
#include "kernels/sm90/layer/steps/experts.h"
#include "kernels/sm90/layer/steps/rows.h"
#include "kernels/sm90/layer/steps/sums.h"
#include "kernels/sm90/layer/steps/tiles.h"

namespace mxcheck_kernels::sm90 {
namespace {

const DLTensor& first_input(const mxcheck_call& call) {
  if (call.inputs == nullptr || call.num_inputs < 1) invalid("there is no input: h is missing");
  return call.inputs[0];
}

// Rows whose blocks hold gates and up values are encoded from BF16; codes along tokens always are.
struct Parts {
  SwigluPlan plan;
  PlanJob experts;
  PlanSpace at;
  std::uint16_t* a = nullptr;   // in the workspace
  std::uint16_t* dh = nullptr;  // in the workspace
  float* sums = nullptr;        // in the workspace
  bool by_tiles = false;
  bool rows_from_values = false;
};

Parts parts_of(const mxcheck_call& call, bool backward, Space& space) {
  Parts x;
  x.plan = read_swiglu_policy(backward, call.policy, first_input(call).dtype);
  const mxcheck_policy& policy = *call.policy;
  require_extents(policy);
  const int inputs = 1 + (x.plan.coded_h ? 1 : 0) + (backward ? 2 : 0);
  if (call.num_inputs > inputs) x.experts.experts = experts_of(call.inputs[inputs]);
  x.experts.rows = policy.rows;
  x.experts.block = x.plan.coding.block;
  PlanJob sizes = x.experts;
  static constexpr std::int64_t kSome = 0;
  if (call.num_inputs > inputs && x.experts.experts >= 0) sizes.offsets = &kSome;  // for the sizes alone
  x.at = take_plan(sizes, space);
  const HInput h{nullptr, 0, nullptr, x.plan.coded_h, x.plan.h_element, x.plan.interleaved};
  x.by_tiles = backward && x.plan.columns && !x.plan.values && takes_tiles(h, policy.cols, x.plan.coding.block);
  if (x.by_tiles) {
    x.sums = space.take<float>(sums_bytes(policy.rows, policy.cols, kTilePart));
    return x;
  }
  if (backward) x.sums = space.take<float>(sums_bytes(policy.rows, policy.cols, kRowPart));
  x.rows_from_values = backward && x.plan.rows && !has_row_blocks(h, policy.cols, x.plan.coding.block);
  const auto words = static_cast<std::uint64_t>(policy.rows) * static_cast<std::uint64_t>(policy.cols);
  if (x.plan.columns && !x.plan.values) x.a = space.take<std::uint16_t>(words * 2);
  if (backward && (x.plan.columns || x.rows_from_values) && !x.plan.values) x.dh = space.take<std::uint16_t>(words * 4);
  return x;
}

HInput h_of(const SwigluPlan& plan, const SwigluTensors& t) {
  HInput h;
  h.data = t.h.data;
  h.stride = plan.coded_h ? 2 * t.n : t.h.stride;
  h.scales = static_cast<const std::uint8_t*>(t.h_scales.data);
  h.coded = plan.coded_h, h.element = plan.h_element, h.interleaved = plan.interleaved;
  return h;
}

bool is_vector(const SwigluPlan& plan, const SwigluTensors& t) {
  if (plan.coded_h || t.n % kEach != 0 || t.h.stride % kEach != 0) return false;
  for (const Checked* x : {&t.h, &t.p, &t.a, &t.dh}) {
    if (!is_aligned(x->data, 16)) return false;
  }
  return is_aligned(t.row.codes.data, 16);
}

RowCodes row_codes(const SwigluPlan& plan, const SwigluTensors& t) {
  return {static_cast<std::uint8_t*>(t.row.codes.data), t.row.scales.data, t.row.scales.cols,
          device_coding(plan.coding)};
}

ColumnCodes column_codes(const CodeTensors& to, const Coding& coding) {
  return {static_cast<std::uint8_t*>(to.codes.data), to.scales.data, to.scales.cols, device_coding(coding)};
}

void transpose(const std::uint16_t* x, std::int64_t cols, const Coding& coding, const CodeTensors& to,
               const TiledRows& rows, cudaStream_t stream) {
  TransposeJob job;
  job.x = x, job.stride = cols, job.cols = cols, job.rows = rows;
  job.out = column_codes(to, coding);
  require_success(launch_transpose(job, cols % kEach == 0 && is_aligned(x, 16), stream));
}

RowsJob rows_job(const Parts& x, const SwigluTensors& t, const TiledRows& rows) {
  const bool values = x.plan.values;
  RowsJob job;
  job.h = h_of(x.plan, t);
  job.rows = t.rows, job.n = t.n;
  job.p = static_cast<const float*>(t.p.data), job.weights = static_cast<const float*>(t.weights.data);
  job.a = values ? static_cast<std::uint16_t*>(t.a.data) : x.a;
  job.dh = values ? static_cast<std::uint16_t*>(t.dh.data) : x.dh;
  job.ds = static_cast<float*>(t.ds.data), job.sums = x.sums;
  job.header = rows.header;
  if (x.plan.rows && !x.rows_from_values) job.row = row_codes(x.plan, t);
  return job;
}

void enqueue(const Parts& x, const SwigluTensors& t, const TiledRows& rows, cudaStream_t stream) {
  const SwigluPlan& plan = x.plan;
  const RowsJob job = rows_job(x, t, rows);
  const bool vector = is_vector(plan, t);
  Coding of_a = plan.coding;
  if (plan.backward) of_a.element = plan.scaled;
  if (x.by_tiles) {
    const BackwardTilesJob tiles{job, rows, column_codes(t.column_a, of_a), column_codes(t.column_dh, plan.coding)};
    require_success(launch_backward_tiles(tiles, vector, stream));
    return;
  }
  require_success(plan.backward ? launch_backward_rows(job, vector, stream) : launch_forward_rows(job, vector, stream));
  if (x.rows_from_values) {
    require_success(launch_encode_rows({job.dh, t.rows, 2 * t.n, row_codes(plan, t), rows.header}, stream));
  }
  if (!plan.columns) return;
  transpose(job.a, t.n, of_a, t.column_a, rows, stream);
  if (plan.backward) transpose(job.dh, 2 * t.n, plan.coding, t.column_dh, rows, stream);
}

void run(const mxcheck_call& call, bool backward) {
  Space space(call.workspace);
  Parts x = parts_of(call, backward, space);
  const SwigluPlan& plan = x.plan;
  const SwigluTensors t = read_swiglu(call, plan, check_tensor);
  if (t.offsets.cols == 1 && t.rows != 0) invalid("offsets holds one value, no expert, and there are rows");
  require_workspace(call, space.bytes());
  const cudaStream_t stream = stream_of(call);
  if (t.offsets.cols != 0) {
    x.experts.offsets = static_cast<const std::int64_t*>(t.offsets.data);
    if (plan.columns) x.experts.bands = t.column_a.scales.cols;
    if (plan.columns && backward && t.column_dh.scales.cols != t.column_a.scales.cols) {
      invalid("the scales of transposed codes have " + std::to_string(t.column_a.scales.cols) + " and " +
              std::to_string(t.column_dh.scales.cols) + " columns: must be as many");
    }
  }
  x.experts.report = report_of(call);
  const TiledRows rows = enqueue_plan(x.experts, x.at, stream);

  enqueue(x, t, rows, stream);
}

}  // namespace

template <bool kBackward>
void check_swiglu(const mxcheck_policy* policy, DLDataType type) {
  read_swiglu_policy(kBackward, policy, type);
}
template <bool kBackward>
std::uint64_t swiglu_workspace(const mxcheck_call& call) {
  Space space(nullptr);
  parts_of(call, kBackward, space);
  return space.bytes();
}
template <bool kBackward>
void run_swiglu(const mxcheck_call& call) {
  run(call, kBackward);
}

template void check_swiglu<false>(const mxcheck_policy*, DLDataType);
template void check_swiglu<true>(const mxcheck_policy*, DLDataType);
template std::uint64_t swiglu_workspace<false>(const mxcheck_call&);
template std::uint64_t swiglu_workspace<true>(const mxcheck_call&);
template void run_swiglu<false>(const mxcheck_call&);
template void run_swiglu<true>(const mxcheck_call&);

}  // namespace mxcheck_kernels::sm90
