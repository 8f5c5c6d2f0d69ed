#pragma once
// Two BF16 in a word, and FP32, each operation with one rounding to nearest, ties to even. Compiled for the host they
// are the same operations, so that tests need no device.

#include <cstdint>

#ifdef __CUDACC__
  #include "kernels/sm90/ptx/arithmetic.cuh"
  #define MXCHECK_EITHER __device__ __forceinline__
  #define MXCHECK_CONSTANT __host__ __device__ constexpr
#else
  #include <bit>
  #include <cmath>
  #define MXCHECK_EITHER inline
  #define MXCHECK_CONSTANT constexpr
#endif

namespace mxcheck_kernels::sm90 {

#ifdef __CUDACC__
MXCHECK_EITHER float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
MXCHECK_EITHER std::uint32_t bits_of(float x) { return __float_as_uint(x); }
MXCHECK_EITHER float product(float a, float b) { return __fmul_rn(a, b); }
MXCHECK_EITHER float sum_of(float a, float b) { return __fadd_rn(a, b); }
MXCHECK_EITHER std::uint32_t larger2(std::uint32_t a, std::uint32_t b) { return __vmaxu2(a, b); }
MXCHECK_EITHER std::uint32_t smaller2(std::uint32_t a, std::uint32_t b) { return __vminu2(a, b); }
MXCHECK_EITHER std::uint32_t fma2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return ptx::fma_rn_bf16x2(a, b, c);
}
// NaN is 0x7FFF.
MXCHECK_EITHER std::uint32_t to_bf16x2(float low, float high) { return ptx::cvt_rn_bf16x2_f32(low, high); }
#else
MXCHECK_EITHER float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
MXCHECK_EITHER std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
MXCHECK_EITHER float product(float a, float b) { return a * b; }
MXCHECK_EITHER float sum_of(float a, float b) { return a + b; }
MXCHECK_EITHER std::uint32_t larger2(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t high = a >> 16 > b >> 16 ? a : b;
  return (high & 0xFFFF0000) | ((a & 0xFFFF) > (b & 0xFFFF) ? a & 0xFFFF : b & 0xFFFF);
}
MXCHECK_EITHER std::uint32_t smaller2(std::uint32_t a, std::uint32_t b) { return ~larger2(~a, ~b); }
MXCHECK_EITHER std::uint32_t to_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  return std::isnan(x) ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
MXCHECK_EITHER std::uint32_t to_bf16x2(float low, float high) { return to_bf16(high) << 16 | to_bf16(low); }
// An FP32 sum of a BF16 and a power of two not far from it is exact; of one far from it, that power.
MXCHECK_EITHER std::uint32_t fma2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return to_bf16x2(std::fma(float_of(a << 16), float_of(b << 16), float_of(c << 16)),
                   std::fma(float_of(a & 0xFFFF0000), float_of(b & 0xFFFF0000), float_of(c & 0xFFFF0000)));
}
#endif

}  // namespace mxcheck_kernels::sm90
