#include "kernels/common/arguments.h"

#include <cstddef>
#include <limits>

namespace mxcheck_kernels {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(std::int64_t rows, std::int64_t cols) { return text(rows) + " x " + text(cols); }

// Elements from the first to the last, both included; for strided matrices the gaps too.
std::int64_t extent(const std::string& name, const Checked& t) {
  std::int64_t elements = 0;
  std::int64_t span = 0;
  if (__builtin_mul_overflow(t.rows, t.cols, &elements)) invalid(name + " of " + text(t.rows, t.cols) + " overflows");
  if (elements == 0) return 0;
  if (__builtin_mul_overflow(t.rows - 1, t.stride, &span) || __builtin_add_overflow(span, t.cols, &span)) {
    invalid(name + " of " + text(t.rows, t.cols) + " with row stride " + text(t.stride) + " overflows");
  }
  return span;
}

void check_type(const std::string& name, DLDataType type, DLDataType wanted) {
  if (same(type, wanted)) return;
  invalid(name + " has DLPack type code " + text(type.code) + ", " + text(type.bits) + " bits, " + text(type.lanes) +
          " lanes: must be code " + text(wanted.code) + ", " + text(wanted.bits) + " bits, 1 lane");
}

void check_strides(const std::string& name, const DLTensor& tensor, Checked& t, Strides strides) {
  const int last = tensor.ndim - 1;
  if (t.cols > 1 && tensor.strides[last] != 1) {
    invalid(name + " has column stride " + text(tensor.strides[last]) + ": must be 1");
  }
  if (last == 0 || t.rows <= 1) return;
  const std::int64_t stride = tensor.strides[0];
  if (strides == Strides::contiguous && stride != t.cols && t.cols != 0) {
    invalid(name + " has row stride " + text(stride) + ": must be contiguous, " + text(t.cols));
  }
  if (stride < t.cols) invalid(name + " has row stride " + text(stride) + ": must be at least " + text(t.cols));
  t.stride = stride;
}

void check_memory(const std::string& name, const DLTensor& tensor, Checked& t) {
  const std::uint64_t item = tensor.dtype.bits / 8U;
  const std::uint64_t elements = static_cast<std::uint64_t>(extent(name, t));
  if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / item) {
    invalid(name + " of " + text(t.rows, t.cols) + " overflows 2^63 bytes");
  }
  t.bytes = elements * item;
  if (t.bytes == 0) return;
  if (tensor.data == nullptr) invalid(name + ".data is null, with " + text(t.rows, t.cols) + " elements");
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(tensor.data);
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  if (__builtin_add_overflow(base, tensor.byte_offset, &start) || __builtin_add_overflow(start, t.bytes, &end)) {
    invalid(name + ".byte_offset " + std::to_string(tensor.byte_offset) + " leads beyond the address space");
  }
  if (start % item != 0) {
    invalid(name + " starts at an address that is not a multiple of its element's " + std::to_string(item) + " bytes");
  }
  t.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

void check_call(const mxcheck_call& call, int least_inputs, int most_inputs, int outputs, const char* inputs) {
  if (call.policy == nullptr) invalid("policy is null");
  if (call.num_inputs < least_inputs || call.num_inputs > most_inputs) {
    invalid(text(call.num_inputs) + " inputs: must be " + text(least_inputs) +
            (least_inputs == most_inputs ? "" : " to " + text(most_inputs)) + inputs);
  }
  if (call.num_outputs != outputs) invalid(text(call.num_outputs) + " outputs: must be " + text(outputs));
  if (call.inputs == nullptr) invalid("inputs is null");
  if (call.outputs == nullptr) invalid("outputs is null");
}

Checked check_layout(const char* name, const DLTensor& tensor, DLDataType type, int rank, Strides strides) {
  const std::string what(name);
  if (tensor.ndim != rank) invalid(what + " has " + text(tensor.ndim) + " dimensions: must have " + text(rank));
  check_type(what, tensor.dtype, type);
  if (tensor.shape == nullptr) invalid(what + ".shape is null");
  for (int i = 0; i < rank; ++i) {
    if (tensor.shape[i] < 0) {
      invalid(what + ".shape[" + text(i) + "] is " + text(tensor.shape[i]) + ": must be 0 or more");
    }
  }
  Checked t;
  t.rows = rank == 1 ? 1 : tensor.shape[0];
  t.cols = tensor.shape[rank - 1];
  t.stride = t.cols;
  if (tensor.strides != nullptr) check_strides(what, tensor, t, strides);
  check_memory(what, tensor, t);
  return t;
}

void require_shape(const char* name, const Checked& t, std::int64_t rows, std::int64_t cols) {
  if (t.rows == rows && t.cols == cols) return;
  invalid(std::string(name) + " has shape " + text(t.rows, t.cols) + ": must be " + text(rows, cols));
}

void require_flag(const char* field, std::int32_t value) {
  if (value != 0 && value != 1) invalid("policy." + std::string(field) + " is " + text(value) + ": must be 0 or 1");
}

void require_policy_shape(const mxcheck_policy& policy, std::int64_t rows, std::int64_t cols) {
  if (policy.rows == rows && policy.cols == cols) return;
  invalid("policy says " + text(policy.rows, policy.cols) + ", the matrix has " + text(rows, cols));
}

void require_disjoint(std::span<const Checked> inputs, std::span<const Checked> outputs) {
  const auto overlap = [](const Checked& a, const Checked& b) {
    const std::uint64_t start_a = reinterpret_cast<std::uintptr_t>(a.data);
    const std::uint64_t start_b = reinterpret_cast<std::uintptr_t>(b.data);
    return a.bytes != 0 && b.bytes != 0 && start_a < start_b + b.bytes && start_b < start_a + a.bytes;
  };
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (overlap(outputs[o], inputs[i])) {
        invalid("output " + std::to_string(o) + " overlaps input " + std::to_string(i));
      }
    }
    for (std::size_t i = 0; i < o; ++i) {
      if (overlap(outputs[o], outputs[i])) {
        invalid("output " + std::to_string(o) + " overlaps output " + std::to_string(i));
      }
    }
  }
}

Extras find_extras(const mxcheck_call& call, int inputs, bool index_possible) {
  Extras extras;
  for (int i = inputs; i < call.num_inputs; ++i) {
    const DLTensor& tensor = call.inputs[i];
    const DLTensor** slot = same(tensor.dtype, kInt64Type)                     ? &extras.offsets
                            : same(tensor.dtype, kInt32Type) && index_possible ? &extras.index
                                                                               : nullptr;
    if (slot == nullptr) {
      invalid("input " + text(i) + " has DLPack type code " + text(tensor.dtype.code) + ", " + text(tensor.dtype.bits) +
              " bits: must be offsets (int64)" + (index_possible ? " or a row index (int32)" : ""));
    }
    if (*slot != nullptr) invalid("input " + text(i) + " is a second tensor of offsets or of row indices");
    *slot = &tensor;
  }
  return extras;
}

bool is_aligned(const void* data, std::uintptr_t to) { return reinterpret_cast<std::uintptr_t>(data) % to == 0; }

void require_workspace(const mxcheck_call& call, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (call.workspace == nullptr || call.workspace_bytes < bytes) {
    invalid("the workspace has " + std::to_string(call.workspace_bytes) + " bytes: must have " + std::to_string(bytes));
  }
  if (!is_aligned(call.workspace, 256)) invalid("the workspace must be aligned to 256 bytes");
}

}  // namespace mxcheck_kernels
