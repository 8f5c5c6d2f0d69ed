#pragma once
// Shared by the kernels of a training step: FP32 operations that are never contracted, BF16, pairwise sums by one warp.
// docs/training.md says where each rounding is.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/route/router_math.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float div(float a, float b) { return __fdiv_rn(a, b); }

__device__ __forceinline__ float widen(std::uint16_t bf16) { return __uint_as_float(std::uint32_t{bf16} << 16); }
// Nearest, ties to even; a NaN becomes 0x7FFF (PTX ISA, "cvt").
__device__ __forceinline__ std::uint16_t to_bf16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }

// exp(x) of x <= 0; a NaN stays one.
__device__ __forceinline__ float exp_or_nan(float x) { return x == x ? exp_rn(x) : x; }

// The numbers a pairwise sum of `count` has once it is filled up with +0.
__host__ __device__ constexpr int padded_count(int count) {
  int width = 1;
  while (width < count) width *= 2;
  return width;
}

// Neighbours, then neighbours of those: the lanes below `width`, a power of two. All lanes have the sum.
__device__ __forceinline__ float pairwise_sum_of_lanes(float x, int width) {
  for (int step = 1; step < width; step *= 2) x = add(x, __shfl_xor_sync(kAllLanes, x, step));
  return __shfl_sync(kAllLanes, x, 0);
}

// The pairwise sum of `count` numbers in shared memory, which has room for padded_count(count) and is overwritten. By
// one warp; what its lanes wrote before is seen.
__device__ inline float pairwise_sum_of(float* v, int count, int lane) {
  int width = padded_count(count);
  for (int i = count + lane; i < width; i += 32) v[i] = 0;
  __syncwarp();
  // A round reads up to 2 i + 1 >= i: none of what a later round reads is overwritten.
  for (; width > 32; width /= 2) {
    for (int i = lane; i < width / 2; i += 32) {
      const float sum = add(v[2 * i], v[2 * i + 1]);
      __syncwarp();
      v[i] = sum;
    }
    __syncwarp();
  }
  const float last = lane < width ? v[lane] : 0.0F;
  __syncwarp();
  return pairwise_sum_of_lanes(last, width);
}

// The largest of a warp's; a NaN is left out.
__device__ __forceinline__ float largest_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

}  // namespace mxcheck_kernels::sm90
