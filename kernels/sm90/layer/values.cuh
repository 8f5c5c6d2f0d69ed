#pragma once
// Elements of a layer on the device: BF16 words, SwiGLU and its gradient, blocks to codes. Every operation is named
// with its rounding, so that the compiler contracts nothing.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/layer/sigmoid.h"
#include "kernels/sm90/common/element.cuh"
#include "kernels/sm90/layer/coding.h"

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ __forceinline__ float low_half(std::uint32_t word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000); }

// Two to BF16, nearest, ties to even; every NaN is 0x7FFF.
__device__ __forceinline__ std::uint32_t two_bf16(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// The table of sigmoids in shared memory, by all threads of a block; a barrier follows.
__device__ __forceinline__ void load_sigmoids(float* q) {
  const auto* from = reinterpret_cast<const float4*>(kSigmoids.q);
  for (int i = static_cast<int>(threadIdx.x); i < kSigmoidEntries / 4; i += static_cast<int>(blockDim.x)) {
    reinterpret_cast<float4*>(q)[i] = from[i];
  }
  __syncthreads();
}
static_assert(kSigmoidEntries % 4 == 0);

__device__ __forceinline__ float sigmoid_of(const float* q, float g) { return q[sigmoid_place(__float_as_uint(g))]; }

__device__ __forceinline__ float swiglu(float g, float u, float q) { return __fmul_rn(__fmul_rn(g, q), u); }

struct Gradient {
  float dg;
  float du;
};
__device__ __forceinline__ Gradient swiglu_gradient(float g, float u, float q, float da) {
  const float derivative = __fmul_rn(q, __fmaf_rn(g, __fsub_rn(1.0F, q), 1.0F));
  return {__fmul_rn(da, __fmul_rn(u, derivative)), __fmul_rn(da, __fmul_rn(g, q))};
}

// A block's scale: the word that is stored (a byte, or a float's bits), and what elements are multiplied or divided by.
struct BlockScale {
  std::uint32_t stored;
  float by;
};
__device__ __forceinline__ BlockScale block_scale(const DeviceCoding& c, std::uint32_t amax) {
  if (c.fp32) {
    const float largest = c.element == Element::e4m3 ? 448.0F : 57344.0F;
    const float quotient = __fdiv_rn(__uint_as_float(amax), largest);
    const float scale = amax >= kInfinity ? __uint_as_float(kNan) : quotient == 0 ? 1.0F : quotient;
    return {__float_as_uint(scale), scale};
  }
  const std::uint32_t byte = c.element == Element::e4m3 ? scale_byte<Element::e4m3>(amax, c.addend)
                                                        : scale_byte<Element::e5m2>(amax, c.addend);
  return {byte, factor_of(byte)};
}

__device__ __forceinline__ float scaled(const DeviceCoding& c, float x, float by) {
  return c.fp32 ? __fdiv_rn(x, by) : __fmul_rn(x, by);
}

// Four codes in a word.
__device__ __forceinline__ std::uint32_t codes_of(const DeviceCoding& c, float v0, float v1, float v2, float v3,
                                                  float by) {
  const float a = scaled(c, v0, by);
  const float b = scaled(c, v1, by);
  const float d = scaled(c, v2, by);
  const float e = scaled(c, v3, by);
  return c.element == Element::e4m3 ? encode4<Element::e4m3>(a, b, d, e) : encode4<Element::e5m2>(a, b, d, e);
}

__device__ __forceinline__ void store_scale(const DeviceCoding& c, void* scales, std::int64_t at, std::uint32_t word) {
  if (c.fp32) {
    static_cast<std::uint32_t*>(scales)[at] = word;
  } else {
    static_cast<std::uint8_t*>(scales)[at] = static_cast<std::uint8_t>(word);
  }
}

__device__ __forceinline__ std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFF; }

// The largest of `lanes` neighbouring lanes, a power of two.
__device__ __forceinline__ std::uint32_t largest_of(std::uint32_t amax, int lanes) {
  for (int step = 1; step < lanes; step *= 2) amax = max(amax, __shfl_xor_sync(kAllLanes, amax, step));
  return amax;
}

}  // namespace mxcheck_kernels::sm90
