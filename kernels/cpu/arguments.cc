#include "kernels/cpu/arguments.h"

#include <limits>
#include <string>

#include "kernels/cpu/refusal.h"

namespace mxcheck_cpu {
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

void check_type(const std::string& name, const DLTensor& tensor, DLDataType type) {
  const DLDataType is = tensor.dtype;
  if (is.code == type.code && is.bits == type.bits && is.lanes == type.lanes) return;
  invalid(name + " has DLPack type code " + text(is.code) + ", " + text(is.bits) + " bits, " + text(is.lanes) +
          " lanes: must be code " + text(type.code) + ", " + text(type.bits) + " bits, 1 lane");
}

void check_strides(const std::string& name, const DLTensor& tensor, Checked& t, Rows rows) {
  const int last = tensor.ndim - 1;
  if (t.cols > 1 && tensor.strides[last] != 1) {
    invalid(name + " has column stride " + text(tensor.strides[last]) + ": must be 1");
  }
  if (last == 0 || t.rows <= 1) return;
  const std::int64_t stride = tensor.strides[0];
  if (rows == Rows::contiguous && stride != t.cols && t.cols != 0) {
    invalid(name + " has row stride " + text(stride) + ": must be contiguous, " + text(t.cols));
  }
  if (stride < t.cols)
    invalid(name + " has row stride " + text(stride) + ": must be at least its columns, " + text(t.cols));
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

void check_call(const mxcheck_call* call, int inputs, int outputs) {
  if (call->policy == nullptr) invalid("policy is null");
  if (call->num_inputs != inputs && call->num_inputs != inputs + 1) {
    invalid(text(call->num_inputs) + " inputs: must be " + text(inputs) + ", or " + text(inputs + 1) + " with offsets");
  }
  if (call->num_outputs != outputs) invalid(text(call->num_outputs) + " outputs: must be " + text(outputs));
  if (call->inputs == nullptr) invalid("inputs is null");
  if (call->outputs == nullptr) invalid("outputs is null");
}

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Rows rows) {
  const std::string what(name);
  if (tensor.device.device_type != kDLCPU) {
    invalid(what + " is on DLPack device " + text(tensor.device.device_type) + ": must be on the host, 1");
  }
  if (tensor.ndim != rank) invalid(what + " has " + text(tensor.ndim) + " dimensions: must have " + text(rank));
  check_type(what, tensor, type);
  if (tensor.shape == nullptr) invalid(what + ".shape is null");
  for (int i = 0; i < rank; ++i) {
    if (tensor.shape[i] < 0)
      invalid(what + ".shape[" + text(i) + "] is " + text(tensor.shape[i]) + ": must be 0 or more");
  }
  Checked t;
  t.rows = rank == 1 ? 1 : tensor.shape[0];
  t.cols = tensor.shape[rank - 1];
  t.stride = t.cols;
  if (tensor.strides != nullptr) check_strides(what, tensor, t, rows);
  check_memory(what, tensor, t);
  return t;
}

void require_shape(const char* name, const Checked& t, std::int64_t rows, std::int64_t cols) {
  if (t.rows == rows && t.cols == cols) return;
  invalid(std::string(name) + " has shape " + text(t.rows, t.cols) + ": must be " + text(rows, cols));
}

void require_scales(const char* name, const Checked& t, const ScaleMap& map, mxcheck_layout layout) {
  if (layout == MXCHECK_COMPACT) return require_shape(name, t, map.bands(), map.scale_cols());
  if (t.cols == map.bytes()) return;
  invalid(std::string(name) + " has " + text(t.cols) + " bytes: must be " + text(map.bytes()) +
          ", the tiles of these blocks and experts");
}

Offsets check_offsets(const mxcheck_call& call, int inputs, std::int64_t rows) {
  if (call.num_inputs == inputs) return {};
  const Checked t = check_tensor("offsets", call.inputs[inputs], DLDataType{kDLInt, 64, 1}, 1, Rows::contiguous);
  if (t.cols == 0) invalid("offsets is empty: must hold one value more than there are experts");
  const std::span<const std::int64_t> offsets(static_cast<const std::int64_t*>(t.data),
                                              static_cast<std::size_t>(t.cols));
  if (offsets.front() != 0) invalid("offsets[0] is " + text(offsets.front()) + ": must be 0");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      invalid("offsets[" + std::to_string(i) + "] is " + text(offsets[i]) + ": must be at least the one before it, " +
              text(offsets[i - 1]));
    }
  }
  if (offsets.back() != rows) {
    invalid("the last of the offsets is " + text(offsets.back()) + ": must be the number of rows, " + text(rows));
  }
  return {t, offsets};
}

void require_disjoint(std::span<const Checked> inputs, std::span<const Checked> outputs) {
  const auto overlap = [](const Checked& a, const Checked& b) {
    const std::uint64_t start_a = reinterpret_cast<std::uintptr_t>(a.data);
    const std::uint64_t start_b = reinterpret_cast<std::uintptr_t>(b.data);
    return a.bytes != 0 && b.bytes != 0 && start_a < start_b + b.bytes && start_b < start_a + a.bytes;
  };
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (overlap(outputs[o], inputs[i]))
        invalid("output " + std::to_string(o) + " overlaps input " + std::to_string(i));
    }
    for (std::size_t i = 0; i < o; ++i) {
      if (overlap(outputs[o], outputs[i]))
        invalid("output " + std::to_string(o) + " overlaps output " + std::to_string(i));
    }
  }
}

}  // namespace mxcheck_cpu
