#pragma once
// FP32 for device code that the host compiles too, so that its tests need no device: each operation is rounded once to
// nearest, ties to even, and keeps subnormal numbers.

#include <cstdint>

#ifdef __CUDACC__
  #include <cuda_runtime.h>
  #define MXCHECK_EITHER __device__ __forceinline__
  #define MXCHECK_CONSTANT __host__ __device__ constexpr
  #define MXCHECK_UNROLL _Pragma("unroll")
#else
  #include <bit>
  #include <cmath>
  #define MXCHECK_EITHER inline
  #define MXCHECK_CONSTANT constexpr
  #define MXCHECK_UNROLL
#endif

namespace mxcheck_kernels::sm90 {

#ifdef __CUDACC__
MXCHECK_EITHER float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
MXCHECK_EITHER std::uint32_t bits_of(float x) { return __float_as_uint(x); }
MXCHECK_EITHER float product(float a, float b) { return __fmul_rn(a, b); }
MXCHECK_EITHER float sum_of(float a, float b) { return __fadd_rn(a, b); }
// a b + c, cut: a b >= c >= 0 and exact.
MXCHECK_EITHER float fused_toward_zero(float a, float b, float c) { return __fmaf_rz(a, b, c); }
MXCHECK_EITHER float quotient(float a, float b) { return __fdiv_rn(a, b); }
MXCHECK_EITHER float reciprocal(float x) { return __frcp_rn(x); }
MXCHECK_EITHER float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }  // a b + c
MXCHECK_EITHER float larger(float a, float b) { return fmaxf(a, b); }                 // the number, if one is NaN
MXCHECK_EITHER float smaller(float a, float b) { return fminf(a, b); }
MXCHECK_EITHER float nearest_integer(float x) { return rintf(x); }
MXCHECK_EITHER std::uint32_t integer_below(float x) { return __float2uint_rd(x); }
#else
MXCHECK_EITHER float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
MXCHECK_EITHER std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
MXCHECK_EITHER float product(float a, float b) { return a * b; }
MXCHECK_EITHER float sum_of(float a, float b) { return a + b; }
MXCHECK_EITHER float fused_toward_zero(float a, float b, float c) {
  const float sum = a * b + c;
  return sum - a * b > c ? float_of(bits_of(sum) - 1) : sum;
}
MXCHECK_EITHER float quotient(float a, float b) { return a / b; }
MXCHECK_EITHER float reciprocal(float x) { return 1 / x; }
MXCHECK_EITHER float fused(float a, float b, float c) { return std::fma(a, b, c); }
MXCHECK_EITHER float larger(float a, float b) { return std::fmax(a, b); }
MXCHECK_EITHER float smaller(float a, float b) { return std::fmin(a, b); }
MXCHECK_EITHER float nearest_integer(float x) { return std::rint(x); }
MXCHECK_EITHER std::uint32_t integer_below(float x) { return static_cast<std::uint32_t>(x); }
#endif

MXCHECK_EITHER float magnitude_of(float x) { return float_of(bits_of(x) & 0x7FFFFFFF); }

// RN(a / b), b and its inverse RN(1 / b) being normal numbers. Where the quotient is none, or a / 2^24, it may be any
// number that is not normal either. Two corrections by exact remainders: the first leaves an error below one last
// place, from which the second gives the quotient (Markstein, IBM J. Res. Dev. 34, 1990).
MXCHECK_EITHER float quotient_by(float a, float b, float inverse) {
  const float near = product(a, inverse);
  const float nearer = fused(fused(-near, b, a), inverse, near);
  return fused(fused(-nearer, b, a), inverse, nearer);
}

}  // namespace mxcheck_kernels::sm90
