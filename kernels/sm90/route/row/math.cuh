#pragma once
// The arithmetic that docs/router.md asks for: exp and log1p correctly rounded, and the scores made of them.
//
// Both are evaluated in FP64 to within about 2^-53 and rounded once to FP32. That this is the correctly rounded value
// is no consequence of the bound but a fact about each of the 2^31 arguments: tests/kernels/sm90/route/row/math_test.cc
// compiles these functions for the host, where std::fma is the same operation, and compares them all.

#include <cstdint>

#ifdef __CUDACC__
  #include <cuda_runtime.h>
  #define MXCHECK_BOTH __device__ __forceinline__
  #define MXCHECK_TABLE static __device__ const
#else
  #include <bit>
  #include <cmath>
  #define MXCHECK_BOTH inline
  #define MXCHECK_TABLE inline constexpr
#endif

namespace mxcheck_kernels::sm90 {

// exp(x) for x <= 0 and -Inf; +0 for NaN, which is what a softmax counts it as.
MXCHECK_BOTH float exp_rn(float x);

// log(1 + x) for 0 <= x <= 1.
MXCHECK_BOTH float log1p_rn(float x);

// 1 / (1 + exp(-x)) as docs/router.md rounds it; +0 for NaN.
MXCHECK_BOTH float sigmoid(float x);

// sqrt(max(x, 0) + log1p(exp(-abs(x)))); +0 for NaN.
MXCHECK_BOTH float sqrtsoftplus(float x);

// sigmoid and sqrtsoftplus round more than once: a larger argument may have a smaller value, by less than this part of
// it. Each of at most three roundings is off by 2^-24 at both arguments.
inline constexpr float kNearlyMonotonic = 0x1p-21F;

}  // namespace mxcheck_kernels::sm90

#include "kernels/sm90/route/row/math_inl.cuh"
