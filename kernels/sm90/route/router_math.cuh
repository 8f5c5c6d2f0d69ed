#pragma once
// The arithmetic that docs/router.md asks for: exp and log1p correctly rounded, and the scores made of them.
//
// Both are evaluated in FP64 to within about 2^-53 and rounded once to FP32. That this is the correctly rounded value
// is no consequence of the bound but a fact about each of the 2^31 arguments:
// tests/kernels/sm90/route/router_math_test.cc compiles these functions for the host, where std::fma is the same
// operation, and compares them all.
//
// Coefficients: interpolation at Chebyshev's nodes of (exp(r) - 1 - r) / r^2 over abs(r) <= ln 2 / 32 (relative error
// of the exponential 2^-54.9) and of (log(1 + s) - s) / s^2 over abs(s) <= 1 / 64 (2^-57.1).

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
namespace elementary {

struct Reciprocal {
  double inverse;  // of 1 + i / 32
  double log;      // -log(inverse)
};

// 2^(i / 16). A line of 128 bytes: lanes that read different elements are served by one access.
MXCHECK_TABLE double kRoots[16] = {
    0x1.0000000000000p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
    0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
    0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
    0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0,
};

MXCHECK_TABLE Reciprocal kReciprocals[33] = {
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.f07c1f07c1f08p-1, 0x1.f829b0e7832f8p-6},
    {0x1.e1e1e1e1e1e1ep-1, 0x1.f0a30c01162a8p-5},
    {0x1.d41d41d41d41dp-1, 0x1.6f0d28ae56b4ep-4},
    {0x1.c71c71c71c71cp-1, 0x1.e27076e2af2eap-4},
    {0x1.bacf914c1bad0p-1, 0x1.29552f81ff521p-3},
    {0x1.af286bca1af28p-1, 0x1.5ff3070a793d6p-3},
    {0x1.a41a41a41a41ap-1, 0x1.9525a9cf456b6p-3},
    {0x1.999999999999ap-1, 0x1.c8ff7c79a9a20p-3},
    {0x1.8f9c18f9c18fap-1, 0x1.fb9186d5e3e29p-3},
    {0x1.8618618618618p-1, 0x1.1675cababa60fp-2},
    {0x1.7d05f417d05f4p-1, 0x1.2e8e2bae11d31p-2},
    {0x1.745d1745d1746p-1, 0x1.4618bc21c5ec2p-2},
    {0x1.6c16c16c16c17p-1, 0x1.5d1bdbf5809cap-2},
    {0x1.642c8590b2164p-1, 0x1.739d7f6bbd007p-2},
    {0x1.5c9882b931057p-1, 0x1.89a3386c1425bp-2},
    {0x1.5555555555555p-1, 0x1.9f323ecbf984cp-2},
    {0x1.4e5e0a72f0539p-1, 0x1.b44f77bcc8f64p-2},
    {0x1.47ae147ae147bp-1, 0x1.c8ff7c79a9a21p-2},
    {0x1.4141414141414p-1, 0x1.dd46a04c1c4a1p-2},
    {0x1.3b13b13b13b14p-1, 0x1.f128f5faf06ecp-2},
    {0x1.3521cfb2b78c1p-1, 0x1.02552a5a5d0ffp-1},
    {0x1.2f684bda12f68p-1, 0x1.0be72e4252a83p-1},
    {0x1.29e4129e4129ep-1, 0x1.154c3d2f4d5eap-1},
    {0x1.2492492492492p-1, 0x1.1e85f5e7040d1p-1},
    {0x1.1f7047dc11f70p-1, 0x1.2795e1289b11bp-1},
    {0x1.1a7b9611a7b96p-1, 0x1.307d7334f10bep-1},
    {0x1.15b1e5f75270dp-1, 0x1.393e0d3562a1ap-1},
    {0x1.1111111111111p-1, 0x1.41d8fe84672afp-1},
    {0x1.0c9714fbcda3bp-1, 0x1.4a4f85db03ebbp-1},
    {0x1.0842108421084p-1, 0x1.52a2d265bc5abp-1},
    {0x1.0410410410410p-1, 0x1.5ad404c359f2dp-1},
    {0x1.0000000000000p-1, 0x1.62e42fefa39efp-1},
};

#ifdef __CUDACC__
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double sum(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float sum(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ float root(float a) { return __fsqrt_rn(a); }
__device__ __forceinline__ float rounded(double a) { return __double2float_rn(a); }
__device__ __forceinline__ int low_word(double a) { return __double2loint(a); }
__device__ __forceinline__ int bits_of(float a) { return __float_as_int(a); }
__device__ __forceinline__ double next_above(double a) {
  return __hiloint2double(__double2hiint(a), __double2loint(a) + 1);
}
__device__ __forceinline__ double times_power(double a, int e) {
  return __hiloint2double(__double2hiint(a) + (e << 20), __double2loint(a));
}
#else
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }
inline double product(double a, double b) { return a * b; }
inline double sum(double a, double b) { return a + b; }
inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline float sum(float a, float b) { return a + b; }
inline float product(float a, float b) { return a * b; }
inline float quotient(float a, float b) { return a / b; }
inline float root(float a) { return std::sqrt(a); }
inline float rounded(double a) { return static_cast<float>(a); }
inline int low_word(double a) { return static_cast<int>(std::bit_cast<std::uint64_t>(a)); }
inline int bits_of(float a) { return std::bit_cast<int>(a); }
inline double next_above(double a) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) + 1); }
inline double times_power(double a, int e) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) + (static_cast<std::uint64_t>(e) << 52));
}
using std::fabs;
using std::fmax;
#endif

}  // namespace elementary

// exp(x) for x <= 0 and -Inf; +0 for NaN, which is what a softmax counts it as.
//
// x = (16 n + i) * ln 2 / 16 + r;  exp(x) = 2^n * 2^(i / 16) * exp(r). Results below the normal numbers are rounded
// once too: in FP64 they are normal. exp(-110) rounds to +0 as everything below does, and fmax drops a NaN.
MXCHECK_BOTH float exp_rn(float x) {
  using namespace elementary;
  constexpr double kShift = 0x1.8p52;  // leaves the nearest integer in the low bits
  const double x64 = fmax(x, -110.0F);
  const double shifted = fused(x64, 0x1.71547652b82fep+4, kShift);
  const int k = low_word(shifted);
  const double steps = sum(shifted, -kShift);
  double r = fused(steps, -0x1.62e42fefa0000p-5, x64);  // exact: the factor has 36 bits
  r = fused(steps, -0x1.cf79abc9e3b3ap-44, r);
  double p = 0x1.6c17bbd1f560ap-10;
  p = fused(p, r, 0x1.11120b77051e7p-7);
  p = fused(p, r, 0x1.55555555190f9p-5);
  p = fused(p, r, 0x1.55555554dcc9bp-3);
  p = fused(p, r, 0x1.0000000000000p-1);
  const double w = fused(product(r, r), p, r);
  const double power = times_power(kRoots[k & 15], k >> 4);
  return rounded(fused(power, w, power));
}

// log(1 + x) for 0 <= x <= 1.
//
// 1 + x = (1 + i / 32) * (1 + s);  i = 0 has a logarithm of exactly 0, so that small x keep their relative accuracy.
MXCHECK_BOTH float log1p_rn(float x) {
  using namespace elementary;
  const int i = bits_of(fused(x, 32.0F, 0x1.8p23F)) & 63;
  const Reciprocal c = kReciprocals[i];
  const double s = fused(static_cast<double>(x), c.inverse, sum(c.inverse, -1.0));
  double q = -0x1.0016690195ac2p-3;
  q = fused(q, s, 0x1.24ab2f908fd82p-3);
  q = fused(q, s, -0x1.555554a20099dp-3);
  q = fused(q, s, 0x1.999998d258344p-3);
  q = fused(q, s, -0x1.0000000000b36p-2);
  q = fused(q, s, 0x1.55555555561cap-2);
  q = fused(q, s, -0x1.0000000000000p-1);
  const double y = sum(c.log, fused(product(s, s), q, s));
  // Two of all arguments give a number closer to the middle of two FP32 numbers than FP64 can tell; it is above.
  const bool above = x == 0x1.800006p-21F || x == 0x1.200036p-17F;
  return rounded(above ? next_above(y) : y);
}

// 1 / (1 + exp(-x)) as docs/router.md rounds it; +0 for NaN.
MXCHECK_BOTH float sigmoid(float x) {
  using namespace elementary;
  const float e = exp_rn(-fabs(x));
  const float s = quotient(x >= 0 ? 1.0F : e, sum(1.0F, e));
  return x == x ? s : 0.0F;
}

// sqrt(max(x, 0) + log1p(exp(-abs(x)))); +0 for NaN.
MXCHECK_BOTH float sqrtsoftplus(float x) {
  using namespace elementary;
  const float s = root(sum(fmax(x, 0.0F), log1p_rn(exp_rn(-fabs(x)))));
  return x == x ? s : 0.0F;
}

// sigmoid and sqrtsoftplus round more than once: a larger argument may have a smaller value, by less than this part of
// it. Each of at most three roundings is off by 2^-24 at both arguments.
inline constexpr float kNearlyMonotonic = 0x1p-21F;

}  // namespace mxcheck_kernels::sm90
