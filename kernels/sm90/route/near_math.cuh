#pragma once
// exp and quotients of the numbers that a row's scores are made of.
//
// exp of a number that is not far below 0, correctly rounded, for all experts of a row: seven FP64 operations and no
// conversion between FP32 and FP64, of which a multiprocessor does a quarter as many as multiply-adds.
//
// a = n * ln 2 / 32 + r with n rounded down;  exp(-a) = 2^-(n / 32) * exp(-r). FP32 finds n and subtracts n times the
// upper 24 bits of ln 2 / 32, which is exact: where n is not 0, a and the product are multiples of 2^-29, and their
// difference is below 2^-5. FP64 subtracts the rest: the bits of the FP32 number that holds n, 31 places up, are those
// of 2^-442 * (2^21 + 0x3040 + n), so that r is short by a constant that the polynomial knows. The power of two in (1,
// 2] times exp(-r) lies in [1, 2] and is added to 1.5 * 2^29, which rounds it to 2^-23 in the operation that
// multiplies; the carry into 2 is one into the exponent.
//
// Where a is so little above a multiple of ln 2 that FP32 finds an n too small, the product is below 1 and the result
// wrong: of all arguments about 20. NearCheck tells of products that round to 1 or less, as it tells of arguments too
// large and of NaN, by one operation for two results each; the caller then takes exp_rn.
//
// The polynomial of degree 5 interpolates at Chebyshev's nodes, by 2^-53.6 of exp(-r); its last rounding, that of the
// power of two and that of r add less than 2^-52.5. Of all arguments one lies nearer than 2^-51.7 to the middle of two
// FP32 numbers. As in router_math.cuh that results are correctly rounded is no consequence of the bound, but a fact
// about each argument: tests/kernels/sm90/route/router_math_test.cc compares them all.

#ifdef __CUDACC__
  #include "kernels/sm90/ptx/arithmetic.cuh"
#else
  #include <algorithm>
#endif

#include "kernels/sm90/route/router_math.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kNearRoots = 32;

namespace elementary {

// 2 * 2^-(i / 32).
MXCHECK_TABLE double kRoots32[kNearRoots] = {
    0x1.0000000000000p+1, 0x1.f50765b6e4540p+0, 0x1.ea4afa2a490dap+0, 0x1.dfc97337b9b5fp+0, 0x1.d5818dcfba487p+0,
    0x1.cb720dcef9069p+0, 0x1.c199bdd85529cp+0, 0x1.b7f76f2fb5e47p+0, 0x1.ae89f995ad3adp+0, 0x1.a5503b23e255dp+0,
    0x1.9c49182a3f090p+0, 0x1.93737b0cdc5e5p+0, 0x1.8ace5422aa0dbp+0, 0x1.82589994cce13p+0, 0x1.7a11473eb0187p+0,
    0x1.71f75e8ec5f74p+0, 0x1.6a09e667f3bcdp+0, 0x1.6247eb03a5585p+0, 0x1.5ab07dd485429p+0, 0x1.5342b569d4f82p+0,
    0x1.4bfdad5362a27p+0, 0x1.44e086061892dp+0, 0x1.3dea64c123422p+0, 0x1.371a7373aa9cbp+0, 0x1.306fe0a31b715p+0,
    0x1.29e9df51fdee1p+0, 0x1.2387a6e756238p+0, 0x1.1d4873168b9aap+0, 0x1.172b83c7d517bp+0, 0x1.11301d0125b51p+0,
    0x1.0b5586cf9890fp+0, 0x1.059b0d3158574p+0,
};

constexpr float kSteps = 0x1.715476p+5F;     // 32 / ln 2, rounded down, so that no r is negative
constexpr float kStepHigh = 0x1.62e42ep-6F;  // ln 2 / 32, rounded down to 24 bits
// Leaves n in the low bits, with 14 bits above it whose negative, 18 places up, is the bias of the exponent less 1.
constexpr std::uint32_t kShiftBits = 0x4B403040U;
constexpr float kShiftNear = 0x1.8p23F + 0x3040;
static_assert(0U - (kShiftBits << 18U) == 126U << 23U);
constexpr double kRoundNear = 0x1.8p29 - 1;  // leaves the product less 1

// In constant memory: operands of FP64 instructions, where literals would be moved to registers for every group. Not
// const, which would make them literals.
#ifdef __CUDACC__
  #define MXCHECK_CONSTANT static __constant__
#else
  #define MXCHECK_CONSTANT inline constexpr
#endif
MXCHECK_CONSTANT double kStepLow = 0x1.efa39ef35793cp+412;  // ln 2 / 32 less its upper bits, times 2^442
// The coefficients of the polynomial for exp(-(t + (2^21 + 0x3040) * (ln 2 / 32 less its upper bits))), from t^0 on.
MXCHECK_CONSTANT double kNearTerms[6] = {0x1.fe0e6379bf86bp-1,  -0x1.fe0e6379bfa02p-1, 0x1.fe0e6379eedf0p-2,
                                         -0x1.54099747dc5b4p-3, 0x1.5407f57fde4bbp-5,  -0x1.0e1fd00eb18b2p-7};
#undef MXCHECK_CONSTANT

// The bits of a normal FP32 number, not negative, 29 places up and 1023 - 127 more in the exponent are those of the
// FP64 number. Of 0 and subnormal numbers they are some number below 2^-125, of which exp is 1 as well.
constexpr std::uint64_t kWiden = std::uint64_t{896} << 52;
#ifdef __CUDACC__
// Each lane of a warp has one of the roots.
struct NearRoots {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ __forceinline__ NearRoots near_roots() {
  const double mine = kRoots32[threadIdx.x % kNearRoots];
  return {static_cast<std::uint32_t>(__double2hiint(mine)), static_cast<std::uint32_t>(__double2loint(mine))};
}
// The root of n modulo 32, which is all that a shuffle looks at: no address, no bank that two lanes want.
__device__ __forceinline__ double root_of(const NearRoots& roots, std::uint32_t n) {
  const std::uint32_t high = __shfl_sync(0xFFFFFFFFU, roots.high, static_cast<int>(n));
  const std::uint32_t low = __shfl_sync(0xFFFFFFFFU, roots.low, static_cast<int>(n));
  return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
}
__device__ __forceinline__ float fused_down(float a, float b, float shift) { return __fmaf_rd(a, b, shift); }
__device__ __forceinline__ double double_of(std::uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
__device__ __forceinline__ std::int32_t least_of(std::int32_t a, std::int32_t b, std::int32_t c) {
  return __vimin3_s32(a, b, c);
}
__device__ __forceinline__ float from_bits(std::uint32_t bits) { return __uint_as_float(bits); }
#else
struct NearRoots {};
inline NearRoots near_roots() { return {}; }
inline double root_of(const NearRoots&, std::uint32_t n) { return kRoots32[n % kNearRoots]; }
// For shifts that leave an integer: a product of FP32 numbers is exact in FP64.
inline float fused_down(float a, float b, float shift) {
  return static_cast<float>(std::floor(double{a} * double{b})) + shift;
}
inline double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }
inline std::int32_t least_of(std::int32_t a, std::int32_t b, std::int32_t c) { return std::min({a, b, c}); }
inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
#endif

}  // namespace elementary

using elementary::near_roots;
using elementary::NearRoots;

// The words by which a NearCheck tells whether a result of exp_near is right.
struct NearWords {
  std::uint32_t steps;   // kShiftBits + n
  std::int32_t product;  // less 1
};

// Over any number of results. Every a is +0 or more, or NaN.
struct NearCheck {
  std::uint32_t steps = 0;
  std::int32_t least = 0x7FFFFFFF;

  MXCHECK_BOTH void add(const NearWords& a, const NearWords& b) {
    steps |= a.steps | b.steps;
    least = elementary::least_of(a.product, b.product, least);
  }

  // True if all are right, and of arguments below 2^kBits - 64 steps: 12 bits, 87.3, exp is a normal number; 11, 42.9,
  // exp is above 2^-62. Larger arguments and NaN have larger words than kShiftBits with any n, so that their bits are
  // not among its own.
  template <int kBits>
  MXCHECK_BOTH bool passes() const {
    return (steps >> kBits) == (elementary::kShiftBits >> kBits) && least > 0;
  }
};

// exp(-a) where a NearCheck of `words` passes. On the device all lanes of a warp call together.
MXCHECK_BOTH float exp_near(float a, const NearRoots& roots, NearWords& words) {
  using namespace elementary;
  const float shifted = fused_down(a, kSteps, kShiftNear);
  const auto n = static_cast<std::uint32_t>(bits_of(shifted));
  const float upper = fused(sum(shifted, -kShiftNear), -kStepHigh, a);
  const double r = double_of((std::uint64_t{static_cast<std::uint32_t>(bits_of(upper))} << 29) + kWiden);
  const double t = fused(double_of(std::uint64_t{n} << 31), -kStepLow, r);
  double p = kNearTerms[5];
#ifdef __CUDACC__
  #pragma unroll
#endif
  for (int i = 4; i >= 0; --i) p = fused(p, t, kNearTerms[i]);
  words = {n, low_word(fused(root_of(roots, n), p, kRoundNear))};
  return from_bits(static_cast<std::uint32_t>(words.product) - ((n & ~31U) << 18U));  // n / 32 less in the exponent
}

// ---- Quotients ----
//
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
// harm to 2. tests/kernels/sm90/route/router_math_test.cc makes the quotients of sigmoid from reciprocals off by a
// unit either way.

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
