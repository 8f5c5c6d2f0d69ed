#include "benchmarks/sm90/gemm/fill.h"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "benchmarks/sm90/common/device_memory.h"

namespace mxcheck::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4096;

__device__ std::uint32_t mixed(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return static_cast<std::uint32_t>(n >> 32);
}

__device__ std::int64_t first() { return std::int64_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ std::int64_t stride() { return std::int64_t{gridDim.x} * kThreads; }

// Standard deviation 1, within 3.47.
__device__ float bell(std::uint32_t a) {
  const std::uint32_t sum = (a & 0xFF) + (a >> 8 & 0xFF) + (a >> 16 & 0xFF) + (a >> 24);
  return (static_cast<float>(sum) - 510.0F) / 147.8F;
}

__global__ void fill_kernel(void* to, std::int64_t count, Filling filling, std::uint32_t seed) {
  for (std::int64_t i = first(); i < count; i += stride()) {
    const std::uint32_t a = mixed((std::uint64_t{seed} << 40) + static_cast<std::uint64_t>(i));
    switch (filling) {
      case Filling::e4m3:
        static_cast<std::uint8_t*>(to)[i] = __nv_cvt_float_to_fp8(115.0F * bell(a), __NV_SATFINITE, __NV_E4M3);
        break;
      case Filling::bf16: {
        // 1021 values of the bell are too few for eight bits: half a step of it is uniform.
        const float fine = static_cast<float>(mixed(a) >> 8) / 16777216.0F - 0.5F;
        static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(bell(a) + fine / 147.8F);
        break;
      }
      case Filling::fp32: static_cast<float*>(to)[i] = 1000.0F * bell(a) + static_cast<float>(a & 0xFFF) / 4096; break;
      case Filling::e8m0_scales: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(120 + a % 11); break;
      case Filling::fp32_scales: static_cast<float*>(to)[i] = 0.75F + static_cast<float>(a >> 8) / 33554432.0F; break;
    }
  }
}

__device__ float scale_at(const void* scales, bool e8m0, std::int64_t i) {
  if (!e8m0) return static_cast<const float*>(scales)[i];
  return ldexpf(1.0F, static_cast<const std::uint8_t*>(scales)[i] - 127);
}

__global__ void by_block_kernel(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to) {
  for (std::int64_t i = first(); i < rows * blocks; i += stride()) {
    to[i] = scale_at(scales, e8m0, i % rows * blocks + i / rows);
  }
}

__global__ void padded_kernel(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to) {
  const std::int64_t padded = (blocks + 3) / 4 * 4;
  for (std::int64_t i = first(); i < rows * padded; i += stride()) {
    const std::int64_t block = i % padded;
    to[i] = block < blocks ? scale_at(scales, e8m0, i / padded * blocks + block) : 0.0F;
  }
}

__global__ void squares_kernel(const __nv_bfloat16* x, const __nv_bfloat16* y, std::int64_t count, double* sums) {
  double difference = 0;
  double size = 0;
  for (std::int64_t i = first(); i < count; i += stride()) {
    const double a = __bfloat162float(x[i]);
    const double b = __bfloat162float(y[i]);
    difference += (a - b) * (a - b);
    size += a * a;
  }
  for (int step = 16; step != 0; step /= 2) {
    difference += __shfl_down_sync(0xFFFFFFFF, difference, step);
    size += __shfl_down_sync(0xFFFFFFFF, size, step);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(&sums[0], difference), atomicAdd(&sums[1], size);
}

}  // namespace

void fill(void* to, std::int64_t count, Filling filling, std::uint32_t seed, cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(to, count, filling, seed);
  check_cuda(cudaGetLastError(), "fill");
}

void scales_by_block(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to,
                     cudaStream_t stream) {
  by_block_kernel<<<kBlocks, kThreads, 0, stream>>>(scales, e8m0, rows, blocks, to);
  check_cuda(cudaGetLastError(), "scales");
}

void scales_padded(const void* scales, bool e8m0, std::int64_t rows, std::int64_t blocks, float* to,
                   cudaStream_t stream) {
  padded_kernel<<<kBlocks, kThreads, 0, stream>>>(scales, e8m0, rows, blocks, to);
  check_cuda(cudaGetLastError(), "scales");
}

void add_squares(const void* x, const void* y, std::int64_t count, double* sums, cudaStream_t stream) {
  squares_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(x),
                                                   static_cast<const __nv_bfloat16*>(y), count, sums);
  check_cuda(cudaGetLastError(), "squares");
}

}  // namespace mxcheck::bench
