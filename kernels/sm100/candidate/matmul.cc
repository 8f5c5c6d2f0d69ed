#include "kernels/sm100/candidate/matmul.h"

#include <array>
#include <span>
#include <string>

namespace mxcheck_kernels::sm100 {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

}  // namespace

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank) {
  if (tensor.device.device_type != kDLCPU) {
    invalid(std::string(name) + " is on DLPack device " + text(tensor.device.device_type) + ": must be on the host, 1");
  }
  if (tensor.device.device_id != 0) {
    invalid(std::string(name) + " is on host number " + text(tensor.device.device_id) + ": must be on 0");
  }
  return check_layout(name, tensor, type, rank, Strides::contiguous);
}

void require_offsets(const Checked& offsets, std::int64_t end) {
  const std::span values(static_cast<const std::int64_t*>(offsets.data), static_cast<std::size_t>(offsets.cols));
  if (values.front() != 0) invalid("offsets[0] is " + text(values.front()) + ": must be 0");
  for (std::size_t e = 1; e < values.size(); ++e) {
    if (values[e] >= values[e - 1]) continue;
    invalid("offsets[" + std::to_string(e) + "] is " + text(values[e]) + ": must be at least the one before it, " +
            text(values[e - 1]));
  }
  if (values.back() != end) {
    invalid("the last of the offsets is " + text(values.back()) + ": must be the end of what they divide, " +
            text(end));
  }
}

void require_rows(const Checked& index, std::int64_t rows) {
  const auto* const values = static_cast<const std::int32_t*>(index.data);
  for (std::int64_t i = 0; i < index.cols; ++i) {
    if (values[i] >= 0 && values[i] < rows) continue;
    invalid("row index[" + text(i) + "] is " + text(values[i]) + ": must be a row of a, 0 to " + text(rows - 1));
  }
}

namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

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
  const Checked checked = check_tensor(name, tensor, type, 2);
  require_shape(name, checked, rows, cols);
  return checked;
}

void read_groups(MatmulTensors& x, const DLTensor* offsets) {
  const bool grouped = x.policy->grouping != MXCHECK_DENSE;
  if ((offsets != nullptr) != grouped) {
    invalid(grouped ? "offsets of groups are missing" : "offsets are given, and policy.grouping is 0");
  }
  if (!grouped) return;
  x.offsets = check_tensor("offsets", *offsets, kInt64Type, 1);
  if (x.offsets.cols < 2) invalid("offsets hold one value more than there are groups: at least 2");
  if (x.offsets.cols > 65537) {
    invalid("offsets are of " + std::to_string(x.offsets.cols - 1) + " groups: at most 65536");
  }
  x.experts = x.offsets.cols - 1;
}

// Returns the rows of a, which are as many as the caller says.
std::int64_t read_index(MatmulTensors& x, const mxcheck_call& call, const DLTensor& index) {
  if (x.policy->grouping == MXCHECK_DEPTH) unsupported("a row index is not offered with groups along depth");
  x.gathers = true;
  x.index = check_tensor("row index", index, kInt32Type, 1);
  require_shape("row index", x.index, 1, x.policy->policy.rows);
  const DLTensor& a = call.inputs[0];
  if (a.ndim != 2 || a.shape == nullptr) invalid("a is no matrix");
  if (a.shape[0] > INT32_MAX) {
    invalid("a has " + std::to_string(a.shape[0]) + " rows: at most 2^31 - 1 are possible");
  }
  return a.shape[0];
}

// Columns of the scales of both operands. Groups along depth have a column for each block that they begin.
std::int64_t scale_columns(const MatmulTensors& x) {
  const mxcheck_matmul_policy& p = *x.policy;
  if (p.grouping != MXCHECK_DEPTH) return blocks(p.depth, p.policy.block_cols);
  const auto* const offsets = static_cast<const std::int64_t*>(x.offsets.data);
  std::int64_t columns = 0;
  for (std::int64_t e = 0; e < x.experts; ++e) columns += blocks(offsets[e + 1] - offsets[e], p.policy.block_cols);
  return columns;
}

}  // namespace

const mxcheck_matmul_policy& matmul_policy(const mxcheck_policy* policy) {
  const mxcheck_matmul_policy& p = policy_of<mxcheck_matmul_policy>(policy, ", that of mxcheck_matmul_policy");
  if (policy->format == nullptr || p.format_b == nullptr) invalid("policy.format or format_b is null");
  if (policy->threads < 0) invalid("policy.threads is " + std::to_string(policy->threads) + ": must be 0 or more");
  if (policy->layout != MXCHECK_COMPACT) unsupported("scales of a matmul are compact: layout must be 0");
  if (p.grouping == MXCHECK_MASKED) unsupported("masked groups are not offered");
  if (p.grouping < MXCHECK_DENSE || p.grouping > MXCHECK_DEPTH) {
    invalid("policy.grouping is " + std::to_string(p.grouping) + ": must be 0 (none), 1 (rows) or 2 (depth)");
  }
  if (p.scale_type < MXCHECK_NO_SCALES || p.scale_type > MXCHECK_E4M3) {
    invalid("policy.scale_type is " + std::to_string(p.scale_type) +
            ": must be 0 (none), 1 (E8M0), 2 (FP32) or 3 (E4M3)");
  }
  require_flag("accumulate", p.accumulate);
  return p;
}

DLDataType output_type(const mxcheck_call& call) {
  if (call.num_outputs != 1 || call.outputs == nullptr) invalid("a matmul has one output, d");
  return call.outputs[0].dtype;
}

MatmulTensors read_matmul(const mxcheck_call& call) {
  MatmulTensors x;
  x.policy = &matmul_policy(call.policy);
  const mxcheck_matmul_policy& p = *x.policy;
  check_extents(p);
  x.adds = p.accumulate != 0;
  const int inputs = x.adds ? 5 : 4;
  check_call(call, inputs, inputs + 2, 1);
  const Extras extras = find_extras(call, inputs);
  read_groups(x, extras.offsets);
  const std::int64_t m = p.policy.rows;
  const std::int64_t n = p.policy.cols;
  const std::int64_t a_rows = extras.index == nullptr ? m : read_index(x, call, *extras.index);
  const std::int64_t b_rows = (p.grouping == MXCHECK_ROWS ? x.experts : 1) * n;
  const std::int64_t row_bytes = is_nvfp4(p) ? (p.depth + 1) / 2 : p.depth;
  x.a = matrix("a", call.inputs[0], kByteType, a_rows, row_bytes);
  x.b = matrix("b", call.inputs[1], kByteType, b_rows, row_bytes);
  // The values of what says where the rest lies, before any of them is used.
  if (extras.offsets != nullptr) require_offsets(x.offsets, p.grouping == MXCHECK_ROWS ? m : p.depth);
  if (extras.index != nullptr) require_rows(x.index, a_rows);
  const std::int64_t columns = scale_columns(x);
  x.scale_a = matrix("scales of a", call.inputs[2], kByteType, a_rows, columns);
  x.scale_b = matrix("scales of b", call.inputs[3], kByteType, b_rows, columns);
  const std::int64_t outputs = p.grouping == MXCHECK_DEPTH ? x.experts : 1;
  const DLDataType d_type = output_type(call);
  if (x.adds) x.c = matrix("c", call.inputs[4], d_type, outputs * m, n);
  x.d = matrix("d", call.outputs[0], d_type, outputs * m, n);
  const bool in_place = x.adds && x.c.data == x.d.data;
  const std::array inputs_of{x.a, x.b, x.scale_a, x.scale_b, in_place ? Checked{} : x.c, x.offsets, x.index};
  require_disjoint(inputs_of, std::array{x.d});
  return x;
}

}  // namespace mxcheck_kernels::sm100
