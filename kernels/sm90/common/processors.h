#pragma once
// The number of processors of the current device: grids of blocks of threads that are all resident are multiples of it.

#include <cuda_runtime_api.h>

namespace mxcheck_kernels::sm90 {

inline cudaError_t count_processors(int& processors) {
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  return cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
}

}  // namespace mxcheck_kernels::sm90
