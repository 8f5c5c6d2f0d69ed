#pragma once
// A call of a CUDA library: kernels/common/arguments.h, that the tensors lie in memory of the current device, and what
// goes beside them. What only the device can read of them is checked there. All throw Refusal.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/common/arguments.h"

namespace mxcheck_kernels::sm90 {

Checked check_tensor(const char* name, const DLTensor& tensor, DLDataType type, int rank, Strides strides);

// The tensors after the first `inputs`: offsets (int64) and a row index (int32), each at most once, told apart by type.
struct Extras {
  const DLTensor* offsets = nullptr;
  const DLTensor* index = nullptr;
};
Extras find_extras(const mxcheck_call& call, int inputs, bool index_possible);

bool is_aligned(const void* data, std::uintptr_t to);

// INVALID for less than these bytes, or another alignment than 256.
void require_workspace(const mxcheck_call& call, std::uint64_t bytes);

inline cudaStream_t stream_of(const mxcheck_call& call) { return static_cast<cudaStream_t>(call.stream); }

// Null in calls of the interface's first size, which ended before it.
inline mxcheck_device_report* report_of(const mxcheck_call& call) {
  return call.size >= sizeof(mxcheck_call) ? call.report : nullptr;
}

void require_success(cudaError_t error);  // DEVICE_ERROR

}  // namespace mxcheck_kernels::sm90
