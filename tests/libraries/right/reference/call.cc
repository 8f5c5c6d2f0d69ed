#include "tests/libraries/right/reference/call.h"

#include "kernels/candidate_matmul.h"
#include "kernels/candidate_route.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mxcheck::candidates {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr int kMostTensors = 16;

void set_type(const DLDataType& type, CallTensor& t) {
  const auto is = [&](int code, int bits) { return type.code == code && type.bits == bits && type.lanes == 1; };
  t.is_offsets = is(kDLInt, 64), t.is_index = is(kDLInt, 32);
  if (is(kDLFloat, 32) || t.is_offsets || t.is_index) return;
  if (is(kDLFloat, 64)) {
    t.dtype = Format::fp64;
  } else if (is(kDLFloat, 16)) {
    t.dtype = Format::fp16;
  } else if (is(kDLBfloat, 16)) {
    t.dtype = Format::bf16;
  } else {
    require(is(kDLUInt, 8), "a tensor of a type that no operation has");
    t.dtype = Format::e4m3;
  }
}

// Strides of a matrix whose columns do not follow one another: rows lie apart, or columns do. Returns the elements from
// first to last.
std::int64_t set_strides(CallTensor& t, std::int64_t row, std::int64_t col) {
  if (t.shape[0] == 1) row = 1;  // it has no meaning
  require(row >= 1 && col >= 1 && row <= kMostElements && col <= kMostElements, "strides are positive");
  require(t.shape[0] <= kMostElements / row && t.shape[1] <= kMostElements / col, "strides of more than there is");
  const std::int64_t of_rows = std::max<std::int64_t>(0, t.shape[0] - 1) * row;
  const std::int64_t of_cols = (t.shape[1] - 1) * col;
  require(t.shape[0] <= 1 || row > of_cols || col > of_rows, "rows do not overlap");
  t.strides = {row, col};
  return of_rows + of_cols + 1;
}

CallTensor tensor_of(const DLTensor& from) {
  CallTensor t;
  require(from.ndim == 1 || from.ndim == 2, "a tensor has one dimension or two");
  require(from.shape != nullptr, "a tensor without a shape");
  require(from.device.device_type == kDLCPU && from.device.device_id == 0, "a tensor that is not on the host");
  set_type(from.dtype, t);
  t.shape.assign(from.shape, from.shape + from.ndim);
  const std::int64_t cols = t.shape.back();
  const std::int64_t rows = from.ndim == 2 ? t.shape[0] : 1;
  require(rows >= 0 && cols >= 0, "an extent is negative");
  std::int64_t stride = cols;
  std::int64_t span = 0;
  if (from.strides != nullptr && from.ndim == 2 && cols > 1 && from.strides[1] != 1) {
    span = set_strides(t, from.strides[0], from.strides[1]);
  } else if (from.strides != nullptr) {
    require(cols <= 1 || from.strides[from.ndim - 1] == 1, "columns follow one another");
    if (from.ndim == 2 && rows > 1) stride = from.strides[0];
    require(stride >= cols, "rows do not overlap");
  }
  require(rows == 0 || stride <= kMostElements / rows, "a tensor of more elements than there is memory");
  if (stride != cols) t.row_stride = stride;
  const std::uint64_t width = from.dtype.bits / 8U;
  if (rows != 0 && cols != 0)
    t.bytes = static_cast<std::uint64_t>(span != 0 ? span : (rows - 1) * stride + cols) * width;
  if (t.bytes == 0) return t;
  require(from.data != nullptr, "data is null");
  t.data = static_cast<const std::byte*>(from.data) + from.byte_offset;
  require(reinterpret_cast<std::uintptr_t>(t.data) % width == 0, "data is not aligned to its elements");
  return t;
}

bool same_kind(const CallTensor& a, const CallTensor& b) {
  if (a.is_offsets != b.is_offsets || a.is_index != b.is_index || a.shape != b.shape) return false;
  return a.is_offsets || a.is_index || a.dtype == b.dtype;
}

template <class T>
T element(const CallTensor& t, std::int64_t i) {
  T value;
  std::memcpy(&value, t.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// Their indices are experts, tokens, rows by slot, and ranks.
bool has_index_of_its_own(const Call& call) {
  return call.operation.starts_with("route") || call.operation.starts_with("moe_") || call.operation == "aggregate" ||
         call.operation == "dispatch" || call.operation == "combine";
}

// Masked groups have a count of rows each in place of offsets.
bool has_counts(const Call& call) {
  return call.operation.starts_with("matmul:") && read<mxcheck_matmul_policy>(call.policy).grouping == MXCHECK_MASKED;
}

// Before anything is indexed by them.
void check_integers(const Call& call, std::int64_t rows) {
  for (const CallTensor& t : call.inputs) {
    if (t.is_offsets && has_counts(call)) {
      require(t.shape.size() == 1 && t.shape[0] >= 1, "counts of rows are a vector of one at least");
      for (std::int64_t i = 0; i < t.shape[0]; ++i) {
        const auto count = element<std::int64_t>(t, i);
        require(count >= 0 && count <= rows / t.shape[0], "a count of rows is from 0 to a group's capacity");
      }
    } else if (t.is_offsets) {
      require(t.shape.size() == 1 && t.shape[0] >= 1, "offsets are a vector of one at least");
      require(element<std::int64_t>(t, 0) == 0, "the first offset is 0");
      for (std::int64_t i = 1; i < t.shape[0]; ++i)
        require(element<std::int64_t>(t, i - 1) <= element<std::int64_t>(t, i), "offsets ascend");
      require(element<std::int64_t>(t, t.shape[0] - 1) <= kMostElements, "the last offset is the number of rows");
    }
    if (!t.is_index || has_index_of_its_own(call)) continue;
    require(t.shape == std::vector<std::int64_t>{rows}, "there is a row index of each row");
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto from = element<std::int32_t>(t, i);
      require(from >= 0 && from < call.inputs[0].shape[0], "a row index is of a row that there is");
    }
  }
}

// quantize's problem has the rows that its index names, in order: the call as it would be without the index.
Call without_index(const Call& call, std::int64_t rows) {
  Call plain = call;
  if (call.operation != "quantize" && call.operation != "quantize_dual") return plain;
  const auto indices = std::erase_if(plain.inputs, [](const CallTensor& t) { return t.is_index; });
  require(indices <= 1, "there are two row indices");
  if (indices == 1) plain.inputs[0].shape[0] = rows;
  return plain;
}

// Checks the inputs that problem_of() reads without looking whether they are there.
void check_inputs(const Call& call, const mxcheck_policy& policy) {
  const auto is_bytes = [&](std::size_t i) {
    return i < call.inputs.size() && !call.inputs[i].is_offsets && !call.inputs[i].is_index;
  };
  if (call.operation.starts_with("quantize")) require(is_bytes(0), "x is missing");
  if (call.operation.starts_with("dequantize")) require(is_bytes(0) && is_bytes(1), "codes or scales are missing");
  if (call.operation != "route_metadata") return;
  const std::int64_t top_k = read<mxcheck_route_policy>(call.policy).top_k;
  require(call.inputs.size() == (top_k == 0 ? 2U : 1U) && call.inputs[0].is_index, "slots are missing");
  if (top_k != 0) return;
  const CallTensor& offsets = call.inputs[1];
  require(offsets.is_offsets && offsets.shape == std::vector<std::int64_t>{policy.rows + 1}, "offsets are one a token");
}

}  // namespace

Policy policy_of(const mxcheck_policy* from, const Policy& like) {
  require(from != nullptr && from->size >= like.num_bytes, "the policy is of another operation");
  Policy p = like;
  std::memcpy(p.bytes, from, p.num_bytes);
  std::memcpy(p.bytes, &p.num_bytes, sizeof(p.num_bytes));  // what later versions append is not asked for
  for (std::uint32_t i = 0; i < p.num_texts; ++i) {
    const char* text = nullptr;
    std::memcpy(&text, p.bytes + p.texts[i].offset, sizeof(text));
    require(text != nullptr, "a text of the policy is null");
    p.texts[i].set(text);
    std::memset(p.bytes + p.texts[i].offset, 0, sizeof(text));
  }
  return p;
}

bool asks_for_the_same(const Policy& a, const Policy& b) {
  const auto plain = [](Policy p) {
    const std::int32_t no_threads = 0;
    std::memcpy(p.bytes + offsetof(mxcheck_policy, threads), &no_threads, sizeof(no_threads));
    for (std::uint32_t i = 0; i < p.num_texts; ++i) std::memset(p.bytes + p.texts[i].offset, 0, sizeof(const char*));
    return p;
  };
  const Policy x = plain(a);
  const Policy y = plain(b);
  if (x.num_bytes != y.num_bytes || std::memcmp(x.bytes, y.bytes, x.num_bytes) != 0) return false;
  for (std::uint32_t i = 0; i < x.num_texts; ++i) {
    if (std::strcmp(x.texts[i].text, y.texts[i].text) != 0) return false;
  }
  return true;
}

Call call_of(const mxcheck_call& from, const std::string& operation, const Policy& like) {
  const auto some = [](int count) { return count >= 1 && count <= kMostTensors; };
  require(some(from.num_inputs) && some(from.num_outputs), "no operation has so many tensors");
  require(from.inputs != nullptr && from.outputs != nullptr, "tensors are missing");
  Call call;
  call.operation = operation, call.policy = policy_of(from.policy, like);
  for (int i = 0; i < from.num_inputs; ++i) call.inputs.push_back(tensor_of(from.inputs[i]));
  for (int i = 0; i < from.num_outputs; ++i) call.outputs.push_back(tensor_of(from.outputs[i]));
  return call;
}

std::unique_ptr<Problem> checked_problem_of(const Call& call) {
  const auto policy = read<mxcheck_policy>(call.policy);
  require(policy.rows >= 0 && policy.cols >= 0 && policy.threads >= 0, "rows, cols and threads are 0 or more");
  require(policy.rows == 0 || policy.cols <= kMostElements / policy.rows, "more elements than there is memory");
  std::int64_t largest = std::numeric_limits<std::int32_t>::max();  // of what the tensors hold, or below
  for (const std::vector<CallTensor>* tensors : {&call.inputs, &call.outputs}) {
    for (const CallTensor& t : *tensors) {
      std::int64_t elements = 1;
      for (const std::int64_t extent : t.shape) elements *= extent;  // checked as the tensor was read
      largest = std::max(largest, elements);
    }
  }
  require(policy.rows <= largest && policy.cols <= largest, "rows and cols are those of the tensors");
  check_integers(call, policy.rows);
  check_inputs(call, policy);
  // A cast has no blocks, and so no experts and no index.
  for (const CallTensor& t : call.inputs)
    require(call.operation != "cast" || (!t.is_offsets && !t.is_index), "a cast takes no offsets and no index");
  const Operation& operation = operation_named(call.operation);
  std::unique_ptr<Problem> problem = operation.problem_of(call);
  require(asks_for_the_same(operation.policy(problem->c), call.policy), "a policy that cannot be");
  operation.check(problem->c);
  const std::vector<std::int64_t>& experts = problem->c.experts;
  require(experts.empty() || experts.back() == operation.experts_end(problem->c), "the last offset is not the end");
  // The problem would be posed with these tensors, and no others.
  const Call own = problem->call();
  const Call given = without_index(call, policy.rows);
  require(given.inputs.size() == own.inputs.size() && given.outputs.size() == own.outputs.size(),
          "a tensor is missing, or one too many");
  for (std::size_t i = 0; i < own.inputs.size(); ++i) {
    const CallTensor& t = given.inputs[i];
    require(same_kind(t, own.inputs[i]), "an input of another shape or type");
    const bool may_have_gaps = i == 0 && t.dtype != Format::e4m3 && operation.may_have_row_stride();
    require((t.row_stride == 0 && t.strides.empty()) || may_have_gaps, "an input with gaps between its rows");
    require(t.strides.empty() || operation.may_have_col_stride(), "columns follow one another");
  }
  for (std::size_t i = 0; i < own.outputs.size(); ++i) {
    require(same_kind(given.outputs[i], own.outputs[i]), "an output of another shape or type");
    require(given.outputs[i].row_stride == 0 && given.outputs[i].strides.empty(), "an output with gaps");
  }
  return problem;
}

}  // namespace mxcheck::candidates
