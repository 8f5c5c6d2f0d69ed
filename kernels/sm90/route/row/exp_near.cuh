#pragma once
// exp of a number that is not far below 0, correctly rounded, for sums over all experts of a row: ten FP64 operations
// and no conversion between FP32 and FP64, of which a multiprocessor does a quarter as many as multiply-adds.
//
// -a = k * ln 2 / 32 + r with k rounded down and 0 <= r < ln 2 / 32;  exp(-a) = 2^(k / 32) * exp(r). The power of two
// in [1, 2) times exp(r) lies in [1, 2] and is added to 1.5 * 2^29, which rounds it to 2^-23 in the operation that
// multiplies; the carry into 2 is one into the exponent. exp(r) is an interpolation at Chebyshev's nodes of degree 5
// (relative error 2^-53.7). As in math.cuh that results are correctly rounded is no consequence of the bound, but a
// fact about each argument: tests/kernels/sm90/route/row/exp_near_test.cc compares them all.

#include "kernels/sm90/route/row/math.cuh"

namespace mxcheck_kernels::sm90 {

// exp_near takes 0 <= a <= kNear: exp(-87) = 2^-125.5 is still a normal number.
inline constexpr float kNear = 87.0F;
inline constexpr int kNearRoots = 32;

namespace elementary {

// In constant memory: operands of FP64 instructions, where literals would be moved to registers for every group. Not
// const, which would make them literals.
#ifdef __CUDACC__
  #define MXCHECK_CONSTANT static __constant__
#else
  #define MXCHECK_CONSTANT inline constexpr
#endif
MXCHECK_CONSTANT double kPerStep = 0x1.71547652b82fep+5;  // 32 / ln 2
// 1.5 * 2^52, and the exponent's bias in steps but for the 1 in [1, 2).
MXCHECK_CONSTANT double kShiftNear = 0x1.8p52 + 126 * kNearRoots;
MXCHECK_CONSTANT double kStepHigh = 0x1.62e42fefa0000p-6;  // 36 bits: its products with k are exact
MXCHECK_CONSTANT double kStepLow = 0x1.cf79abc9e3b3ap-45;
MXCHECK_CONSTANT double kNearTerms[6] = {0x1.fffffffffffffp-1, 0x1.0000000000422p+0,
                                         0x1.fffffffdd3759p-2, 0x1.555558ad62e0bp-3,
                                         0x1.5550af76b36bep-5, 0x1.140a9437727edp-7};  // of exp(r), from r^0 on
#undef MXCHECK_CONSTANT

// 2^(i / 32).
MXCHECK_TABLE double kRoots32[kNearRoots] = {
    0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0, 0x1.172b83c7d517bp+0,
    0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0, 0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0,
    0x1.3dea64c123422p+0, 0x1.44e086061892dp+0, 0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0,
    0x1.6247eb03a5585p+0, 0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
    0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0, 0x1.ae89f995ad3adp+0,
    0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0, 0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0,
    0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
};

// Rounded down to an integer: `shift` is between 2^52 and 2^53.
#ifdef __CUDACC__
__device__ __forceinline__ double fused_down(double a, double b, double shift) { return __fma_rd(a, b, shift); }
__device__ __forceinline__ double double_of(std::uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
__device__ __forceinline__ float from_bits(std::uint32_t bits) { return __uint_as_float(bits); }
// bits + (k / kNearRoots << 23), in two operations where the compiler makes three of that.
__device__ __forceinline__ std::uint32_t raised(std::uint32_t bits, std::uint32_t k) {
  constexpr std::uint32_t kWhole = 0U - kNearRoots;
  asm("mad.lo.u32 %0, %1, %2, %0;" : "+r"(bits) : "r"(k & kWhole), "n"((1U << 23U) / kNearRoots));
  return bits;
}
#else
inline double fused_down(double a, double b, double shift) {
  const double nearest = std::fma(a, b, shift);
  return std::fma(a, b, shift - nearest) < 0 ? nearest - 1 : nearest;  // the sign is exact
}
inline double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }
inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t raised(std::uint32_t bits, std::uint32_t k) { return bits + (k / kNearRoots << 23U); }
#endif

}  // namespace elementary

// exp(-a); roots: kRoots32 or a copy of it.
MXCHECK_BOTH float exp_near(float a, const double* roots) {
  using namespace elementary;
  // The bits of a normal FP32 number 29 places up and 1023 - 127 more in the exponent are those of the FP64 number. Of
  // 0 and subnormal numbers they are some number below 2^-125, of which exp is 1 as well.
  const double a64 =
      double_of((std::uint64_t{static_cast<std::uint32_t>(bits_of(a))} << 29) + (std::uint64_t{896} << 52));
  const double shifted = fused_down(a64, -kPerStep, kShiftNear);
  const auto k = static_cast<std::uint32_t>(low_word(shifted));
  const double steps = sum(shifted, -kShiftNear);
  double r = fused(steps, -kStepHigh, -a64);
  r = fused(steps, -kStepLow, r);
  double p = kNearTerms[5];
#ifdef __CUDACC__
  #pragma unroll
#endif
  for (int i = 4; i >= 0; --i) p = fused(p, r, kNearTerms[i]);
  const double rounded = fused(roots[k % kNearRoots], p, 0x1.8p29);
  return from_bits(raised(static_cast<std::uint32_t>(low_word(rounded)), k));
}

}  // namespace mxcheck_kernels::sm90
