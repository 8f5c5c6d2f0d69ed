// The table of a layer's operations (kernels/candidate_layer.h), and how a call of each is checked and run: which
// kernels it takes, and what they hand one another in the workspace. check_*: throws Refusal for what is not offered;
// *_workspace: bytes of a call, from its shapes alone; run_*: checks the call and enqueues it.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/candidate_layer.h"
#include "kernels/common/arguments.h"
#include "kernels/common/boundary.h"
#include "kernels/common/layer/policy.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/common/refusal.h"
#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {
namespace {

// --- workspace and plan ----------------------------------------------------------------------------------------------

// A workspace handed out part by part, each aligned to 256 bytes. Without memory it only counts.
class Space {
 public:
  explicit Space(void* base) : base_(static_cast<std::uint8_t*>(base)) {}

  // INVALID where the sum is beyond what an address can be. Null for no bytes, and without memory.
  template <class T>
  T* take(std::uint64_t bytes) {
    if (bytes > kMost - bytes_) invalid("the tensors are so large that no workspace would do");
    auto* const at = base_ == nullptr || bytes == 0 ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  std::uint8_t* base_;
  std::uint64_t bytes_ = 0;
};

// Where the plan of a call is in its workspace.
struct PlanSpace {
  PlanHeader* header = nullptr;
  RowTile* table = nullptr;
};
PlanSpace take_plan(const PlanJob& job, Space& space) {
  if (!job.needed()) return {};
  PlanSpace at;
  at.header = space.take<PlanHeader>(kHeaderBytes);
  at.table = space.take<RowTile>(table_bytes(job));
  return at;
}

// experts of a tensor of offsets, by its shape alone; -1 for a shape that none has.
std::int64_t experts_of(const DLTensor& offsets) {
  return offsets.ndim == 1 && offsets.shape != nullptr && offsets.shape[0] > 0 ? offsets.shape[0] - 1 : -1;
}

// INVALID for more rows or columns than the kernels' 32-bit numbers hold.
void require_extents(const mxcheck_policy& policy) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMostCols = kMostRows / 2;
  if (policy.rows >= 0 && policy.rows <= kMostRows && policy.cols >= 0 && policy.cols <= kMostCols) return;
  invalid("policy says " + std::to_string(policy.rows) + " x " + std::to_string(policy.cols) + ": must be 0 to " +
          std::to_string(kMostRows) + " rows and 0 to " + std::to_string(kMostCols) + " columns");
}

// The plan enqueued where the device has something to check; the rows as kernels take them.
TiledRows enqueue_plan(const PlanJob& job, const PlanSpace& space, cudaStream_t stream) {
  TiledRows rows;
  rows.rows = job.rows, rows.tiles = most_tiles(job);
  if (!job.needed()) return rows;
  require_success(make_plan(job, space.header, space.table, stream));
  rows.header = space.header;
  if (job.offsets != nullptr) rows.table = space.table;
  return rows;
}

// --- "swiglu" and "swiglu_backward" ----------------------------------------------------------------------------------

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

// --- "quantize_transposed" -------------------------------------------------------------------------------------------

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

// --- "aggregate" -----------------------------------------------------------------------------------------------------

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

// --- the table -------------------------------------------------------------------------------------------------------

// An operation of this name: kCheck says what is offered, kRun runs it, kWorkspace says how many bytes it needs.
template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o = make_cuda_operation<kCheck, kRun, kWorkspace>(name);
  o.max_rows = INT32_MAX, o.max_cols = INT32_MAX / 2;
  return o;
}

constexpr std::array kOperations{
    operation<check_swiglu<false>, run_swiglu<false>, swiglu_workspace<false>>("swiglu"),
    operation<check_swiglu<true>, run_swiglu<true>, swiglu_workspace<true>>("swiglu_backward"),
    operation<check_aggregate, run_aggregate, aggregate_workspace>("aggregate"),
    operation<check_transpose, run_transpose, transpose_workspace>("quantize_transposed"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_layer", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
