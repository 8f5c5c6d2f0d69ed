#pragma once
// q = RN(1 / RN(1 + exp(-g))), exp correctly rounded, as docs/layer.md defines it: for the host and for CUDA.
//
// A gate is a BF16 number, or a code times a power of two, which is one too unless it is below BF16's range. Between
// 2^-26 and 128 there are 33 binades of 128 BF16 numbers of each sign; below, q is 1/2, from 128 on 0 or 1 (exp(-16.7)
// is below 2^-24, exp(88.8) above FP32's range). So q of every gate is one of 2 * 4224 FP32 numbers, a table of 33 KB:
// an element costs a load instead of an exponential and a division.
//
//   entry_of(bits of g)      the place of q in the table; of a NaN any
//   sigmoid_entry(place)     q there, computed
//
// exp is Taylor's series to x^13 / 13! after the usual reduction, in FP64: |r| <= ln 2 / 2, the first term left out is
// below 2^-57 of the result, and roundings stay below 2^-51. That one rounding to FP32 is then right is a fact about
// each of the 8,448 gates: tests/kernels/layer/sigmoid_test.cc compares them with the reference.

#include <cstdint>

#ifdef __CUDACC__
  #include <cuda_runtime.h>
  #define MXCHECK_LAYER_BOTH __device__ __forceinline__
#else
  #include <bit>
  #include <cmath>
  #define MXCHECK_LAYER_BOTH inline
#endif

namespace mxcheck_kernels {

inline constexpr int kGateFirst = (127 - 26) << 7;  // BF16 bits of 2^-26
inline constexpr int kGateLast = (127 + 7) << 7;    // of 128
inline constexpr int kGates = kGateLast - kGateFirst;
inline constexpr int kSigmoidEntries = 2 * kGates;
static_assert(kGates == 33 * 128);

MXCHECK_LAYER_BOTH int entry_of(std::uint32_t g) {
  int at = static_cast<int>(g >> 16 & 0x7FFF);
  at = at < kGateFirst ? kGateFirst : at;
  at = at > kGateLast - 1 ? kGateLast - 1 : at;
  return at - kGateFirst + ((g >> 31) != 0 ? kGates : 0);
}

namespace sigmoid_detail {
#ifdef __CUDACC__
MXCHECK_LAYER_BOTH double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
MXCHECK_LAYER_BOTH double power_of_two(int e) { return __hiloint2double((e + 1023) << 20, 0); }
MXCHECK_LAYER_BOTH float quotient(float a, float b) { return __fdiv_rn(a, b); }
MXCHECK_LAYER_BOTH float rounded(double a) { return __double2float_rn(a); }
MXCHECK_LAYER_BOTH float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
#else
MXCHECK_LAYER_BOTH double fused(double a, double b, double c) { return std::fma(a, b, c); }
MXCHECK_LAYER_BOTH double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}
MXCHECK_LAYER_BOTH float quotient(float a, float b) { return a / b; }
MXCHECK_LAYER_BOTH float rounded(double a) { return static_cast<float>(a); }
MXCHECK_LAYER_BOTH float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
#endif

// For |x| < 128: FP64 holds it, and FP32 makes +Inf or 0 of what is beyond its range.
MXCHECK_LAYER_BOTH float exp_rn(float x) {
  constexpr double kShift = 0x1.8p52;  // adding it leaves the nearest integer
  const double shifted = fused(x, 0x1.71547652b82fep+0, kShift);
  const double k = shifted - kShift;
  double r = fused(k, -0x1.62e42fefa3900p-1, x);  // exact: the factor has 45 bits, k 8
  r = fused(k, -0x1.de6af278ece60p-46, r);
  double p = 1;
#ifdef __CUDACC__
  #pragma unroll
#endif
  for (int n = 13; n > 0; --n) p = fused(p, r * (1.0 / n), 1);
  return rounded(p * power_of_two(static_cast<int>(k)));
}
}  // namespace sigmoid_detail

MXCHECK_LAYER_BOTH float sigmoid_entry(int at) {
  using namespace sigmoid_detail;
  const bool negative = at >= kGates;
  const auto bits = static_cast<std::uint32_t>(at - (negative ? kGates : 0) + kGateFirst) << 16;
  const float minus_g = float_of(bits | (negative ? 0U : 0x80000000U));
  return quotient(1, 1 + exp_rn(minus_g));
}

}  // namespace mxcheck_kernels
