#include "kernels/sm90/common/arguments.h"

#include <string>

#include <cuda_runtime_api.h>

#include "kernels/sm90/common/refusal.h"

namespace mxcheck_sm90 {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(std::int64_t rows, std::int64_t cols) { return text(rows) + " x " + text(cols); }

bool is(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

void check_type(const std::string& name, DLDataType type, DLDataType wanted) {
  if (is(type, wanted)) return;
  invalid(name + " has DLPack type code " + text(type.code) + ", " + text(type.bits) + " bits, " + text(type.lanes) +
          " lanes: must be code " + text(wanted.code) + ", " + text(wanted.bits) + " bits, 1 lane");
}

void check_strides(const std::string& name, const DLTensor& tensor, Checked& t, Lines lines) {
  const int last = tensor.ndim - 1;
  if (t.cols > 1 && tensor.strides[last] != 1) {
    invalid(name + " has column stride " + text(tensor.strides[last]) + ": must be 1");
  }
  if (last == 0 || t.rows <= 1) return;
  const std::int64_t stride = tensor.strides[0];
  if (lines == Lines::contiguous && stride != t.cols && t.cols != 0) {
    invalid(name + " has row stride " + text(stride) + ": must be contiguous, " + text(t.cols));
  }
  if (stride < t.cols) invalid(name + " has row stride " + text(stride) + ": must be at least " + text(t.cols));
  t.stride = stride;
}

// Elements from the first to the last, gaps included; 63 bits of bytes.
std::uint64_t bytes_of(const std::string& name, const Checked& t, std::int64_t item) {
  std::int64_t elements = 0;
  std::int64_t span = 0;
  std::int64_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(t.rows, t.cols, &elements) ||
      (elements != 0 && (__builtin_mul_overflow(t.rows - 1, t.stride, &span) ||
                         __builtin_add_overflow(span, t.cols, &span) || __builtin_mul_overflow(span, item, &bytes)));
  if (overflow) invalid(name + " of " + text(t.rows, t.cols) + " with row stride " + text(t.stride) + " overflows");
  return static_cast<std::uint64_t>(bytes);
}

// Memory of the current device: anything else would end in a fault that no later call recovers from.
void check_memory(const std::string& name, const DLTensor& tensor, Checked& t) {
  const std::int64_t item = tensor.dtype.bits / 8;
  t.bytes = bytes_of(name, t, item);
  if (t.bytes == 0) return;
  if (tensor.data == nullptr) invalid(name + ".data is null, with " + text(t.rows, t.cols) + " elements");
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(tensor.data);
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  if (__builtin_add_overflow(base, tensor.byte_offset, &start) || __builtin_add_overflow(start, t.bytes, &end)) {
    invalid(name + ".byte_offset " + std::to_string(tensor.byte_offset) + " leads beyond the address space");
  }
  if (start % static_cast<std::uint64_t>(item) != 0) {
    invalid(name + " starts at an address that is not a multiple of its element's " + text(item) + " bytes");
  }
  t.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  for (const std::uint64_t at : {start, end - 1}) {
    cudaPointerAttributes attributes{};
    const cudaError_t error = cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(at));
    const bool device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    if (error != cudaSuccess || !device) {
      (void)cudaGetLastError();  // a pointer that is nobody's is no error of the next call
      invalid(name + (at == start ? " does not start" : " does not end") + " in memory of a CUDA device");
    }
    int current = 0;
    (void)cudaGetDevice(&current);
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != current) {
      invalid(name + " is memory of CUDA device " + text(attributes.device) + ": the current device is " +
              text(current));
    }
  }
}

}  // namespace

void check_call(const mxcheck_call& call, int least_inputs, int most_inputs, int outputs) {
  if (call.policy == nullptr) invalid("policy is null");
  if (call.num_inputs < least_inputs || call.num_inputs > most_inputs) {
    invalid(text(call.num_inputs) + " inputs: must be " + text(least_inputs) + " to " + text(most_inputs));
  }
  if (call.num_outputs != outputs) invalid(text(call.num_outputs) + " outputs: must be " + text(outputs));
  if (call.inputs == nullptr) invalid("inputs is null");
  if (call.outputs == nullptr) invalid("outputs is null");
}

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Lines lines) {
  const std::string what(name);
  if (tensor.device.device_type != kDLCUDA && tensor.device.device_type != kDLCUDAManaged) {
    invalid(what + " is on DLPack device " + text(tensor.device.device_type) + ": must be on CUDA, 2");
  }
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
  if (tensor.strides != nullptr) check_strides(what, tensor, t, lines);
  check_memory(what, tensor, t);
  return t;
}

void require_shape(const char* name, const Checked& t, std::int64_t rows, std::int64_t cols) {
  if (t.rows == rows && t.cols == cols) return;
  invalid(std::string(name) + " has shape " + text(t.rows, t.cols) + ": must be " + text(rows, cols));
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
    const DLTensor** slot = is(tensor.dtype, kOffsetType)                    ? &extras.offsets
                            : is(tensor.dtype, kIndexType) && index_possible ? &extras.index
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

}  // namespace mxcheck_sm90
