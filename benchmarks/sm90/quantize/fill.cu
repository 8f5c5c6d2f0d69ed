// Kernels of the benchmark itself.

#include <cuda_bf16.h>

#include "benchmarks/sm90/quantize/device_call.h"

namespace mxcheck::bench {
namespace {

__device__ std::uint32_t mixed(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return static_cast<std::uint32_t>(n >> 32);
}

template <class T>
__global__ void fill_kernel(T* to, std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols; i += step) {
    const std::uint32_t a = mixed(static_cast<std::uint64_t>(i) * 2 + seed);
    const float bell = static_cast<float>((a & 0xFF) + (a >> 8 & 0xFF) + (a >> 16 & 0xFF) + (a >> 24)) / 256.0F - 2.0F;
    const std::uint32_t b = mixed(static_cast<std::uint64_t>(i / cols) + seed * 977ULL);
    const float outlier = (a ^ b) % 4001 == 0 ? 40.0F : 1.0F;
    to[i] = static_cast<T>(ldexpf(bell * outlier, static_cast<int>(b % 7) - 3));
  }
}

__global__ void nothing() {}

}  // namespace

void fill_normal(void* to, std::int64_t rows, std::int64_t cols, bool fp32, std::uint32_t seed, cudaStream_t stream) {
  if (fp32) {
    fill_kernel<<<4096, 256, 0, stream>>>(static_cast<float*>(to), rows, cols, seed);
  } else {
    fill_kernel<<<4096, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(to), rows, cols, seed);
  }
  check_cuda(cudaGetLastError(), "fill");
}

void launch_nothing(cudaStream_t stream) {
  nothing<<<132, 128, 0, stream>>>();
  check_cuda(cudaGetLastError(), "empty kernel");
}

}  // namespace mxcheck::bench
