#pragma once
// The correctly rounded reciprocal from one that is an ulp off at most, by three fused operations. For the host too,
// where a test takes all mantissas (tests/kernels/sm90/nvfp4/reciprocal_test.cc).
//
// Let x be in [1, 2), y the near reciprocal and e = 1 - x y, a multiple of 2^-47 that is 2^-23 at most: it is exact.
// A Newton step is y (1 + e) = (1 - e e) / x before it is rounded. Here it is y (1 + g), g = e + e e rounded up, which
// adds less than the last place of g: h. With u = 2^-48,
//
//   y (1 + g) = (1 - e) (1 + e + e e + h) / x = (1 - e e e + (1 - e) h) / x
//
// The middle m of two numbers is an odd multiple of 2^-25, and x m = 1 - k u with an integer k, which is not 0: a power
// of two has no odd factor. The result is correctly rounded if what is rounded lies on the same side of m as 1 / x: if
// (1 - e) h - e e e is above -u and below u, or |k| is larger.
//
//   |k| > 4   h < 4 u, and e e e is 2^-69 at most.
//   |k| < 5   Of all numbers only those next to m, 2^-25 away, are within an ulp of 1 / x. Thus |e| is x 2^-25, up to
//             4 u. If it is below 2^-24, g has multiples of u, as has e: h is u - e e at most, where e e is u / 5 or
//             more. That is so but for x = 2 - 2^-23 and y = 1 / 2: e = 2^-24, g = e + 2 u, h = u. Then the sum is
//             (1 - e) u - e u: below u. Here a Newton step alone is at the middle, and rounds to 1 / 2, an ulp low.
//
// For x = 1 the result is 1: what is added is far from half an ulp. Other powers of two change nothing while x, 1 / x
// and y are normal.

#include <cstdint>

#ifdef __CUDACC__
  #include "kernels/sm90/ptx/arithmetic.cuh"
#else
  #include <limits>
#endif

#include "kernels/sm90/common/either.cuh"

namespace mxcheck_kernels::sm90 {

// e + e e, rounded up, of an e of 2^-23 at most.
#ifdef __CUDACC__
MXCHECK_EITHER float with_square_up(float e) { return __fmaf_ru(e, e, e); }
#else
MXCHECK_EITHER float with_square_up(float e) {
  const float near = std::fma(e, e, e);
  const bool below = static_cast<double>(near) - static_cast<double>(e) < static_cast<double>(e) * e;  // all exact
  return below ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near;
}
#endif

// RN(1 / x). near: within an ulp of 1 / x; all are normal.
MXCHECK_EITHER float reciprocal_from(float x, float near) {
  return fused(near, with_square_up(fused(-x, near, 1.0F)), near);
}

#ifdef __CUDACC__
// RN(1 / x), as __frcp_rn() has it, of an x from 2^-125 to 2^125. The hardware's is off by an ulp at most (PTX ISA,
// rcp.approx.ftz), and no bit of it reaches the result.
__device__ __forceinline__ float reciprocal_of_normal(float x) {
  return reciprocal_from(x, ptx::rcp_approx_ftz_f32(x));
}
#endif

}  // namespace mxcheck_kernels::sm90
