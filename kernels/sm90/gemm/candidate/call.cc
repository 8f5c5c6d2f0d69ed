#include "kernels/sm90/gemm/candidate/call.h"

#include <algorithm>
#include <limits>
#include <string>

namespace mxcheck_kernels::sm90 {
namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

DLDataType scale_type_of(std::int32_t type) {
  if (type == MXCHECK_E8M0) return kByteType;
  if (type == MXCHECK_FP32) return kFp32Type;
  if (type == MXCHECK_E4M3) return kByteType;
  invalid("policy.scale_type is " + std::to_string(type) + ": must be 0 (none), 1 (E8M0), 2 (FP32) or 3 (E4M3)");
}

// Sizes of the policy, before any is multiplied by another.
void check_extents(const mxcheck_matmul_policy& p) {
  constexpr std::int64_t kMost = INT32_MAX;
  const auto check = [](const char* name, std::int64_t value) {
    if (value < 0 || value > kMost) {
      invalid(std::string("policy.") + name + " is " + std::to_string(value) + ": must be 0 to 2^31 - 1");
    }
  };
  check("rows", p.policy.rows), check("cols", p.policy.cols), check("depth", p.depth);
}

Checked matrix(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t rows, std::int64_t cols) {
  const Checked checked = check_tensor(name, tensor, type, 2, Strides::contiguous);
  require_shape(name, checked, rows, cols);
  return checked;
}

// Reads the counts of masked groups, which take the place of offsets, the only int64 tensor of a call.
void read_counts(MatmulTensors& x, const DLTensor* counts) {
  if (counts == nullptr) invalid("counts of masked groups are missing");
  x.offsets = check_tensor("counts", *counts, kInt64Type, 1, Strides::contiguous);
  const std::int64_t groups = x.offsets.cols;
  if (groups < 1 || groups > 65536) {
    invalid("counts are of " + std::to_string(groups) + " groups: must be 1 to 65536");
  }
  const std::int64_t rows = x.policy->policy.rows;
  if (rows % groups != 0) {
    invalid("policy.rows is " + std::to_string(rows) + ": must be a multiple of the masked groups, " +
            std::to_string(groups));
  }
  x.experts = groups;
}

void read_groups(MatmulTensors& x, const DLTensor* offsets) {
  if (x.policy->grouping == MXCHECK_MASKED) return read_counts(x, offsets);
  const bool grouped = x.policy->grouping != MXCHECK_DENSE;
  if ((offsets != nullptr) != grouped) {
    invalid(grouped ? "offsets of groups are missing" : "offsets are given, and policy.grouping is 0");
  }
  if (!grouped) return;
  x.offsets = check_tensor("offsets", *offsets, kInt64Type, 1, Strides::contiguous);
  if (x.offsets.cols < 2) invalid("offsets hold one value more than there are groups: at least 2");
  if (x.offsets.cols > 65537) {
    invalid("offsets are of " + std::to_string(x.offsets.cols - 1) + " groups: at most 65536");
  }
  x.experts = x.offsets.cols - 1;
}

// Returns the rows of a, which are as many as the caller says.
std::int64_t read_index(MatmulTensors& x, const mxcheck_call& call, const DLTensor& index) {
  if (x.policy->grouping == MXCHECK_MASKED) invalid("masked groups have no row index");
  if (x.policy->grouping == MXCHECK_DEPTH) unsupported("a row index is not offered with groups along depth");
  x.index = check_tensor("row index", index, kInt32Type, 1, Strides::contiguous);
  require_shape("row index", x.index, 1, x.policy->policy.rows);
  if (call.inputs[0].ndim != 2 || call.inputs[0].shape == nullptr) invalid("a is no matrix");
  const std::int64_t a_rows = call.inputs[0].shape[0];
  if (a_rows > INT32_MAX) invalid("a has " + std::to_string(a_rows) + " rows: at most 2^31 - 1 are possible");
  return a_rows;
}

// Columns of the scales of a. Groups along depth have a column for each block that they begin: how many in all depends
// on where they end, which the device sees.
std::int64_t scale_columns(const MatmulTensors& x, const mxcheck_call& call) {
  const mxcheck_matmul_policy& p = *x.policy;
  const std::int64_t least = blocks(p.depth, p.policy.block_cols);
  if (p.grouping != MXCHECK_DEPTH) return least;
  if (p.block_b_cols != p.policy.block_cols) invalid("blocks of scales of a and b must have as many columns");
  const DLTensor& scales = call.inputs[2];
  if (scales.ndim != 2 || scales.shape == nullptr) invalid("scales of a are no matrix");
  const std::int64_t most = std::min(p.depth, least + x.experts - 1);
  if (scales.shape[1] < least || scales.shape[1] > std::max(least, most)) {
    invalid("scales of a have " + std::to_string(scales.shape[1]) + " columns: groups of this depth have " +
            std::to_string(least) + " to " + std::to_string(most));
  }
  return scales.shape[1];
}

void read_scales(MatmulTensors& x, const mxcheck_call& call, std::int64_t a_rows) {
  const mxcheck_matmul_policy& p = *x.policy;
  if (p.policy.block_rows <= 0 || p.policy.block_cols <= 0 || p.block_b_rows <= 0 || p.block_b_cols <= 0) {
    invalid("blocks of scales must have 1 or more rows and columns");
  }
  const DLDataType type = scale_type_of(p.scale_type);
  const std::int64_t columns = scale_columns(x, call);
  x.scale_a = matrix("scales of a", call.inputs[2], type, blocks(a_rows, p.policy.block_rows), columns);
  x.scale_b = matrix("scales of b", call.inputs[3], type, x.matrices() * blocks(p.policy.cols, p.block_b_rows),
                     p.grouping == MXCHECK_DEPTH ? columns : blocks(p.depth, p.block_b_cols));
}

}  // namespace

const mxcheck_matmul_policy& matmul_policy(const mxcheck_policy* policy) {
  const mxcheck_matmul_policy& p = policy_of<mxcheck_matmul_policy>(policy, ", that of mxcheck_matmul_policy");
  if (policy->format == nullptr || p.format_b == nullptr) invalid("policy.format or format_b is null");
  if (policy->layout != MXCHECK_COMPACT) unsupported("scales of a matmul are compact: layout must be 0");
  if (p.grouping < MXCHECK_DENSE || p.grouping > MXCHECK_MASKED) {
    invalid("policy.grouping is " + std::to_string(p.grouping) +
            ": must be 0 (none), 1 (rows), 2 (depth) or 3 (masked)");
  }
  if (p.scale_type != MXCHECK_NO_SCALES) scale_type_of(p.scale_type);
  require_flag("accumulate", p.accumulate);
  return p;
}

DLDataType output_type(const mxcheck_call& call) {
  if (call.num_outputs != 1 || call.outputs == nullptr) invalid("a matmul has one output, d");
  return call.outputs[0].dtype;
}

MatmulTensors read_matmul(const mxcheck_call& call, DLDataType a_type, DLDataType b_type) {
  MatmulTensors x;
  x.policy = &matmul_policy(call.policy);
  const mxcheck_matmul_policy& p = *x.policy;
  check_extents(p);
  x.scaled = p.scale_type != MXCHECK_NO_SCALES;
  x.adds = p.accumulate != 0;
  const int inputs = 2 + (x.scaled ? 2 : 0) + (x.adds ? 1 : 0);
  check_call(call, inputs, inputs + 2, 1);
  const Extras extras = find_extras(call, inputs, true);
  read_groups(x, extras.offsets);
  const std::int64_t m = p.policy.rows;
  const std::int64_t n = p.policy.cols;
  const std::int64_t a_rows = extras.index == nullptr ? m : read_index(x, call, *extras.index);
  const std::int64_t columns = p.scale_type == MXCHECK_E4M3 ? blocks(p.depth, 2) : p.depth;  // two codes a byte
  x.a = matrix("a", call.inputs[0], a_type, a_rows, columns);
  x.b = matrix("b", call.inputs[1], b_type, x.matrices() * n, columns);
  if (x.scaled) read_scales(x, call, a_rows);
  const std::int64_t outputs = p.grouping == MXCHECK_DEPTH ? x.experts : 1;
  const DLDataType d_type = output_type(call);
  if (x.adds) x.c = matrix("c", call.inputs[inputs - 1], d_type, outputs * m, n);
  x.d = matrix("d", call.outputs[0], d_type, outputs * m, n);
  x.in_place = x.adds && x.c.data == x.d.data;
  const std::array inputs_of{x.a, x.b, x.scale_a, x.scale_b, x.in_place ? Checked{} : x.c, x.offsets, x.index};
  require_disjoint(inputs_of, std::array{x.d});
  return x;
}

bool is_bf16(DLDataType type) { return same(type, kBf16Type); }
bool is_fp32(DLDataType type) { return same(type, kFp32Type); }
bool checks_on_device(const mxcheck_call& call) {
  if (call.inputs == nullptr) invalid("inputs is null");
  for (int i = 2; i < call.num_inputs; ++i) {
    const DLDataType type = call.inputs[i].dtype;
    if (same(type, kInt64Type) || same(type, kInt32Type)) return true;
  }
  return false;
}

void fill_matmul(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, bool reads_in_place) {
  const mxcheck_matmul_policy& p = *x.policy;
  if (reads_in_place && (!is_aligned(x.a.data, 16) || !is_aligned(x.b.data, 16))) {
    unsupported("a and b are offered at multiples of 16 bytes");
  }
  matmul.alpha = p.alpha;
  constexpr std::array kKinds{MatmulKind::dense, MatmulKind::rows, MatmulKind::depth, MatmulKind::masked};
  matmul.kind = kKinds[static_cast<std::size_t>(p.grouping)];
  matmul.output = is_bf16(output_type(call)) ? MatmulOutput::bf16 : MatmulOutput::fp32;
  matmul.accumulate = x.adds;
  matmul.a = x.a.data, matmul.b = x.b.data;
  matmul.c = x.c.data, matmul.d = x.d.data;
  matmul.m = p.policy.rows, matmul.n = p.policy.cols, matmul.k = p.depth;
  matmul.experts = static_cast<int>(x.experts);
  if (x.index.cols != 0) matmul.row_index = static_cast<const std::int32_t*>(x.index.data);
  matmul.a_rows = x.a.rows;
}

void check_matmul(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, std::int64_t multiple,
                  std::int64_t* starts) {
  const bool grouped = x.offsets.cols != 0;
  if (!grouped && matmul.row_index == nullptr) return;
  CheckJob job;
  if (matmul.kind == MatmulKind::masked) {
    job.counts = static_cast<const std::int64_t*>(x.offsets.data), job.experts = x.experts;
    job.end = matmul.m / x.experts;
    matmul.offsets = job.counts;
  } else if (grouped) {
    job.offsets = static_cast<const std::int64_t*>(x.offsets.data), job.experts = x.experts;
    job.end = matmul.kind == MatmulKind::rows ? matmul.m : x.policy->depth;
    if (matmul.kind == MatmulKind::depth) job.multiple = multiple;
    if (matmul.kind == MatmulKind::depth && x.scaled) {
      job.block = x.policy->policy.block_cols, job.blocks = x.scale_a.cols, job.starts = starts;
    }
    matmul.offsets = job.offsets + 1;
  }
  job.index = matmul.row_index, job.rows = matmul.m, job.source_rows = matmul.a_rows;
  job.report = report_of(call);
  auto* const result = static_cast<CheckResult*>(call.workspace);
  require_success(launch_check(job, result, stream_of(call)));
  matmul.status = &result->status;
}

// --- workspace -------------------------------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kAlignment = 256;

std::uint64_t whole(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Groups along depth; 0 where there are none, or none that can be read.
std::int64_t groups_of(const mxcheck_call& call) {
  for (int i = 2; i < call.num_inputs; ++i) {
    const DLTensor& t = call.inputs[i];
    if (same(t.dtype, kInt64Type) && t.ndim == 1 && t.shape != nullptr && t.shape[0] > 0 && t.shape[0] <= 65537) {
      return t.shape[0] - 1;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t matrix_bytes(const mxcheck_call& call, int input, std::int64_t cols, int element_bytes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
  const std::string name = input == 0 ? "a" : "b";
  const DLTensor& t = call.inputs[input];
  if (t.ndim != 2 || t.shape == nullptr || t.shape[0] < 0 || t.shape[1] < 0) invalid(name + " is no matrix");
  if (cols != 0 && t.shape[0] > kMost / cols) invalid(name + " is too large");
  return whole(static_cast<std::uint64_t>(t.shape[0] * cols) * static_cast<std::uint64_t>(element_bytes));
}

MatmulWorkspace plan_workspace(const mxcheck_call& call, int element_bytes, std::int64_t multiple) {
  const mxcheck_matmul_policy& p = matmul_policy(call.policy);
  if (call.inputs == nullptr || call.num_inputs < 2) invalid("a matmul has two inputs or more");
  MatmulWorkspace plan;
  plan.bytes = checks_on_device(call) ? kCheckBytes : 0;
  plan.starts_at = plan.bytes;
  if (p.grouping == MXCHECK_DEPTH && p.scale_type != MXCHECK_NO_SCALES) {
    plan.bytes += whole(static_cast<std::uint64_t>(groups_of(call) + 1) * sizeof(std::int64_t));
  }
  plan.a_at = plan.b_at = plan.bytes;
  if (p.depth < 0 || p.depth > INT32_MAX) invalid("policy.depth must be 0 to 2^31 - 1");
  if (p.depth % multiple == 0) return plan;
  plan.pitch = (p.depth + multiple - 1) / multiple * multiple;
  if (plan.pitch > INT32_MAX) unsupported("depths are offered up to the last multiple of 32 below 2^31");
  plan.b_at += matrix_bytes(call, 0, plan.pitch, element_bytes);
  plan.bytes = plan.b_at + matrix_bytes(call, 1, plan.pitch, element_bytes);
  return plan;
}

void pad_operands(MatmulCall& matmul, const MatmulTensors& x, const mxcheck_call& call, const MatmulWorkspace& plan,
                  int element_bytes) {
  if (plan.pitch == 0) return;
  auto* const workspace = static_cast<std::uint8_t*>(call.workspace);
  PadJob job;
  job.operands[0] = {x.a.data, workspace + plan.a_at, x.a.rows};
  job.operands[1] = {x.b.data, workspace + plan.b_at, x.b.rows};
  job.row_bytes = x.policy->depth * element_bytes;
  job.pitch_bytes = plan.pitch * element_bytes;
  require_success(launch_pad(job, stream_of(call)));
  matmul.a = job.operands[0].to;
  matmul.b = job.operands[1].to;
  matmul.k = plan.pitch;
}

}  // namespace mxcheck_kernels::sm90
