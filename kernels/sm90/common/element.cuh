#pragma once
// Numbers on the device: amax as integer bits, the scale rule by integer arithmetic, the element cast, and back.
//
// All of it is exact. An amax is the bits of the largest magnitude, compared as an unsigned integer, so that infinity
// and every NaN compare above all numbers and are not lost. x * 2^-e is one FP32 multiplication by a power of two:
// exact, or so small that its code is a zero. cvt.rn.satfinite (PTX ISA, "cvt") rounds to nearest, ties to even, and
// saturates.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/dtype.h"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr std::uint32_t kInfinity = 0x7F800000;
inline constexpr std::uint32_t kNan = 0x7FC00000;

template <Element kElement>
__host__ __device__ constexpr int largest_exponent() {
  return kElement == Element::e4m3 ? 8 : 15;  // of 448 = 1.75 * 2^8 and of 57344 = 1.75 * 2^15
}

// e + 127 for e = ceil(log2(amax / vmax)) (rceil) or floor(log2(amax)) - emax (floor), at least 0; 255 for a NaN or Inf
// amax. amax: FP32 bits without a sign. A subnormal amax has exponent field 0 and so byte 0.
template <Element kElement>
__device__ __forceinline__ std::uint32_t scale_byte(std::uint32_t amax, std::uint32_t addend) {
  const int byte = static_cast<int>((amax + addend) >> 23) - largest_exponent<kElement>();
  return amax >= kInfinity ? 255 : static_cast<std::uint32_t>(max(byte, 0));
}

// 2^(127 - byte); NaN for 255. Bytes of finite amax end at 247, so that the factor is never subnormal.
__device__ __forceinline__ float factor_of(std::uint32_t byte) {
  return __uint_as_float(byte == 255 ? kNan : (254 - byte) << 23);
}

// 2^(byte - 127), the subnormal 2^-127 included; NaN for 255.
__device__ __forceinline__ float value_of(std::uint32_t byte) {
  const std::uint32_t bits = byte == 0 ? 0x00400000 : byte << 23;
  return __uint_as_float(byte == 255 ? kNan : bits);
}

// Two codes, that of `low` in the lower byte. NaN becomes 0x7F in both formats.
template <Element kElement>
__device__ __forceinline__ std::uint32_t encode2(float low, float high) {
  if constexpr (kElement == Element::e4m3) {
    return ptx::cvt_rn_satfinite_e4m3x2_f32(low, high);
  } else {
    return ptx::cvt_rn_satfinite_e5m2x2_f32(low, high);
  }
}

template <Element kElement>
__device__ __forceinline__ std::uint32_t encode4(float a, float b, float c, float d) {
  return encode2<kElement>(a, b) | encode2<kElement>(c, d) << 16;
}

// The values of two codes: every E4M3 and E5M2 value is a half.
template <Element kElement>
__device__ __forceinline__ float2 decode2(std::uint32_t codes) {
  if constexpr (kElement == Element::e4m3) {
    return ptx::cvt_f32_f16x2(ptx::cvt_rn_f16x2_e4m3x2(static_cast<std::uint16_t>(codes)));
  } else {
    return ptx::cvt_f32_f16x2(ptx::cvt_rn_f16x2_e5m2x2(static_cast<std::uint16_t>(codes)));
  }
}

}  // namespace mxcheck_kernels::sm90
