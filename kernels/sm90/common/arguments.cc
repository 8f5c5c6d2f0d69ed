#include "kernels/sm90/common/arguments.h"

#include <string>

namespace mxcheck_kernels::sm90 {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

// Memory of the current device: anything else would end in a fault that no later call recovers from.
void check_device_memory(const std::string& name, const Checked& t) {
  const std::uint64_t start = reinterpret_cast<std::uintptr_t>(t.data);
  for (const std::uint64_t at : {start, start + t.bytes - 1}) {
    cudaPointerAttributes attributes{};
    const cudaError_t error = cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(at));
    const bool device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    if (error != cudaSuccess || !device) {
      (void)cudaGetLastError();  // a pointer that CUDA does not know is no error of the next call
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

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Strides strides) {
  if (tensor.device.device_type != kDLCUDA && tensor.device.device_type != kDLCUDAManaged) {
    invalid(std::string(name) + " is on DLPack device " + text(tensor.device.device_type) + ": must be on CUDA, 2");
  }
  int current = 0;
  (void)cudaGetDevice(&current);
  if (tensor.device.device_type == kDLCUDA && tensor.device.device_id != current) {
    invalid(std::string(name) + " is on CUDA device " + text(tensor.device.device_id) + ": the current device is " +
            text(current));
  }
  const Checked t = check_layout(name, tensor, type, rank, strides);
  if (t.bytes != 0) check_device_memory(name, t);
  return t;
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

void require_success(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw Refusal(MXCHECK_DEVICE_ERROR, std::string("CUDA error ") + std::to_string(static_cast<int>(error)) + ", " +
                                          cudaGetErrorString(error));
}

}  // namespace mxcheck_kernels::sm90
