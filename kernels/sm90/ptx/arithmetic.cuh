#pragma once
// Instructions on registers for which CUDA C++ has no function, or one of more instructions: conversions of two numbers
// at once, arithmetic on two halves in a word. Named and ordered as in PTX: of two sources of a conversion the first
// goes to the upper half.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90::ptx {

// --- conversions ----------------------------------------------------------------------------------------------------

// Nearest, ties to even; every NaN is 0x7FFF.
__device__ __forceinline__ std::uint32_t cvt_rn_bf16x2_f32(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
__device__ __forceinline__ std::uint32_t cvt_rn_f16x2_f32(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
// Both halves, the lower in x.
__device__ __forceinline__ float2 cvt_f32_f16x2(std::uint32_t halves) {
  float2 d;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(d.x), "=f"(d.y)
      : "r"(halves));
  return d;
}
// NaN becomes 0x7F in both formats.
__device__ __forceinline__ std::uint16_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
  std::uint16_t d;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(high), "f"(low));
  return d;
}
__device__ __forceinline__ std::uint16_t cvt_rn_satfinite_e5m2x2_f32(float low, float high) {
  std::uint16_t d;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(d) : "f"(high), "f"(low));
  return d;
}
__device__ __forceinline__ std::uint16_t cvt_rn_satfinite_e4m3x2_f16x2(std::uint32_t halves) {
  std::uint16_t d;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(d) : "r"(halves));
  return d;
}
// Exact.
__device__ __forceinline__ std::uint32_t cvt_rn_f16x2_e4m3x2(std::uint16_t codes) {
  std::uint32_t d;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(codes));
  return d;
}
__device__ __forceinline__ std::uint32_t cvt_rn_f16x2_e5m2x2(std::uint16_t codes) {
  std::uint32_t d;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(d) : "h"(codes));
  return d;
}

// --- two halves in a word -------------------------------------------------------------------------------------------

__device__ __forceinline__ std::uint32_t fma_rn_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ std::uint32_t mul_rn_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t mul_rn_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// NaN only of two.
__device__ __forceinline__ std::uint32_t min_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t max_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// NaN if either is.
__device__ __forceinline__ std::uint32_t max_nan_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// The larger magnitude, or NaN, with some sign.
__device__ __forceinline__ std::uint32_t max_nan_xorsign_abs_bf16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t max_nan_xorsign_abs_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// --- one word -------------------------------------------------------------------------------------------------------

// NaN if either is, which max.f32 alone would drop.
__device__ __forceinline__ float max_nan_f32(float a, float b) {
  float d;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}
// The same of FP32 numbers in words.
__device__ __forceinline__ std::uint32_t max_nan_f32(std::uint32_t a, std::uint32_t b) {
  asm("{.reg .f32 a, b; mov.b32 a, %0; mov.b32 b, %1; max.NaN.f32 a, a, b; mov.b32 %0, a;}" : "+r"(a) : "r"(b));
  return a;
}
// Approximate, off by an ulp at most. hardware_reciprocal (route/near_math.cuh) corrects quotients until no bit of it
// is left, and reciprocal_of_normal (nvfp4/reciprocal.cuh) corrects it itself.
__device__ __forceinline__ float rcp_approx_ftz_f32(float a) {
  float d;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}
// Bytes of a, or of 0, or eight times the sign of one, as the selector says.
template <std::uint32_t kSelector>
__device__ __forceinline__ std::uint32_t prmt_b32(std::uint32_t a) {
  std::uint32_t d;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(d) : "r"(a), "n"(kSelector));
  return d;
}

}  // namespace mxcheck_kernels::sm90::ptx
