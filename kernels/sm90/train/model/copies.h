#pragma once
// Copies between the host and the device that a stream makes in its turn.
//
// Errors: Refusal{DEVICE_ERROR}.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/sm90/common/arguments.h"

namespace mxcheck_kernels::sm90 {

template <class T>
void upload(T* to, const T* from, std::int64_t count, cudaStream_t stream) {
  require_success(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), cudaMemcpyHostToDevice, stream));
}
template <class T>
void download(T* to, const T* from, std::int64_t count, cudaStream_t stream) {
  require_success(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), cudaMemcpyDeviceToHost, stream));
}

}  // namespace mxcheck_kernels::sm90
