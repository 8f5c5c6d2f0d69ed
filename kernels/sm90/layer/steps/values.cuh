#pragma once
// Elements of a layer on the device: BF16 words, SwiGLU and its gradient, blocks to codes. Every operation is named
// with its rounding, so that the compiler contracts nothing.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/layer/sigmoid.h"
#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/layer/steps/coding.h"

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ __forceinline__ float low_half(std::uint32_t word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000); }

// The table of sigmoids in shared memory, by all threads of a block; a barrier follows.
__device__ __forceinline__ void load_sigmoids(float* q) {
  const auto* from = reinterpret_cast<const float4*>(kSigmoids.q);
  for (int i = static_cast<int>(threadIdx.x); i < kSigmoidEntries / 4; i += static_cast<int>(blockDim.x)) {
    reinterpret_cast<float4*>(q)[i] = from[i];
  }
  __syncthreads();
}
static_assert(kSigmoidEntries % 4 == 0);

// sigmoid_place of two BF16 gates, less kGateFirst each.
__device__ __forceinline__ std::uint32_t two_places(std::uint32_t gates) {
  constexpr std::uint32_t kFirst = kGateFirst * 0x10001U;
  constexpr std::uint32_t kLast = (kGateLast - 1) * 0x10001U;
  const std::uint32_t magnitudes = __vminu2(__vmaxu2(gates & 0x7FFF7FFF, kFirst), kLast);
  return magnitudes + (gates >> 15 & 0x00010001) * kGates;  // below 2^15: no carry
}

__device__ __forceinline__ float swiglu(float g, float u, float q) { return __fmul_rn(__fmul_rn(g, q), u); }

struct Gradient {
  float dg;
  float du;
};
__device__ __forceinline__ Gradient swiglu_gradient(float g, float u, float q, float da) {
  const float derivative = __fmul_rn(q, __fmaf_rn(g, __fsub_rn(1.0F, q), 1.0F));
  return {__fmul_rn(da, __fmul_rn(u, derivative)), __fmul_rn(da, __fmul_rn(g, q))};
}

// Magnitudes of BF16 numbers are ordered as their bits: the larger of each half, and of both as an FP32's bits.
__device__ __forceinline__ std::uint32_t larger_halves(std::uint32_t amax, std::uint32_t two) {
  return __vmaxu2(amax, two & 0x7FFF7FFF);
}
__device__ __forceinline__ std::uint32_t larger_half(std::uint32_t amax) { return max(amax << 16, amax & 0xFFFF0000); }

__device__ __forceinline__ std::uint32_t amax_of(const uint4& words) {
  const std::uint32_t low = larger_halves(words.x & 0x7FFF7FFF, words.y);
  return larger_halves(larger_halves(low, words.z), words.w);
}

// The largest of `lanes` neighbouring lanes, a power of two.
__device__ __forceinline__ std::uint32_t largest_of(std::uint32_t amax, int lanes) {
  for (int step = 1; step < lanes; step *= 2) amax = max(amax, __shfl_xor_sync(kAllLanes, amax, step));
  return amax;
}

}  // namespace mxcheck_kernels::sm90
