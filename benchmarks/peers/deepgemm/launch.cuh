#pragma once
// One launch of a kernel of DeepGEMM with the grid, the clusters and the shared memory that its host code gives it.

#include <cuda_runtime.h>

#include "benchmarks/peers/deepgemm/kernels.h"
#include "benchmarks/peers/deepgemm/tensor_map.h"

namespace mxcheck_peers::deepgemm {

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Configuration& c, cudaStream_t stream, Arguments... arguments) {
  const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, c.shared_bytes);
  if (e != cudaSuccess) return e;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(c.cluster());
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kProcessors);
  config.blockDim = dim3(static_cast<unsigned>(kLoadThreads + c.math_threads()));
  config.dynamicSmemBytes = static_cast<std::size_t>(c.shared_bytes);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = c.cluster() > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

inline Matrix codes(const void* data, std::int64_t rows, std::int64_t cols) {
  return {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, data, rows, cols};
}

// Scales as Operands has them, a line of `rows` for each block of k.
inline Matrix lines_of_scales(const float* data, std::int64_t rows, std::int64_t blocks) {
  return {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, data, blocks, rounded_up(rows, 4)};
}

}  // namespace mxcheck_peers::deepgemm
