#pragma once
// Quotients of FP32 numbers, rounded to nearest, without the branch for what overflows or vanishes on the way: for a
// divisor in [1, 4096] and a dividend in [2^-62, 1].
//
// A dividend times the correctly rounded reciprocal is within 2 units in the last place of the quotient, one correction
// leaves less than one, and from there the second gives the correctly rounded quotient (Markstein). Remainders are
// exact: they are multiples of 2^-47 times the dividend's power of two, above 2^-149.
//
// The reciprocal of the hardware is a unit in the last place off at most; a step of Newton leaves 2^-45 before it
// rounds, so that what comes out is the correctly rounded one but where that is so near to a middle: of 2 - 2^-23,
// whose reciprocal is just above the middle of 1/2 and the next number, it may be 1/2. Hence the maximum, which does no
// harm to 2. tests/kernels/sm90/route/row/quotient_test.cc makes the quotients of sigmoid from reciprocals off by a
// unit either way.

#include "kernels/sm90/route/row/math.cuh"
#ifdef __CUDACC__
  #include "kernels/sm90/ptx/arithmetic.cuh"
#endif

namespace mxcheck_kernels::sm90 {

#ifdef __CUDACC__
// Approximate, and no bit of it reaches a result: of any value within its unit in the last place (PTX ISA,
// rcp.approx.ftz) nearer_reciprocal and quotient_near make the same quotient, which is the correctly rounded one.
__device__ __forceinline__ float hardware_reciprocal(float d) { return ptx::rcp_approx_ftz_f32(d); }
#endif

namespace elementary {
#ifdef __CUDACC__
__device__ __forceinline__ float most(float a, float b) { return fmaxf(a, b); }
#else
inline float most(float a, float b) { return a < b ? b : a; }
#endif
}  // namespace elementary

// The reciprocal of d in [1, 2], from `near`, one that is a unit in the last place off at most.
MXCHECK_BOTH float nearer_reciprocal(float d, float near) {
  using namespace elementary;
  return most(fused(fused(-d, near, 1.0F), near, near), 0x1.000002p-1F);
}

// a / d; inverse: the correctly rounded reciprocal of d, or nearer_reciprocal.
MXCHECK_BOTH float quotient_near(float a, float d, float inverse) {
  using namespace elementary;
  const float near = product(a, inverse);
  const float nearer = fused(fused(-d, near, a), inverse, near);
  return fused(fused(-d, nearer, a), inverse, nearer);
}

}  // namespace mxcheck_kernels::sm90
