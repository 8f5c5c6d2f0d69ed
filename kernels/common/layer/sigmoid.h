#pragma once
// q = RN(1 / RN(1 + exp(-g))), exp correctly rounded, as docs/layer.md defines it: for the host and for CUDA.
//
// A gate is a BF16 number, or a code times a power of two, which is one too unless it is below BF16's range. Between
// 2^-26 and 128 there are 33 binades of 128 BF16 numbers of each sign; below, q is 1/2, from 128 on 0 or 1 (exp(-16.7)
// is below 2^-24, exp(88.8) above FP32's range). So q of every gate is one of 2 * 4224 FP32 numbers, a table of 33 KB
// that the compiler makes: an element costs a load instead of an exponential and a division.
//
//   kSigmoids.q[sigmoid_place(bits of g)]      of a NaN any of them
//
// exp is Taylor's series to x^17 / 17! after the usual reduction, in FP64: |r| <= ln 2 / 2, the first term left out is
// below 2^-80 of the result, and roundings stay below 2^-50. That one rounding to FP32 is then right is a fact about
// each of the 8,448 gates: tests/kernels/common/layer/sigmoid_test.cc compares them with the reference.

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
  #include <cuda_runtime.h>
  #define MXCHECK_SIGMOID_BOTH __host__ __device__
#else
  #define MXCHECK_SIGMOID_BOTH
#endif

namespace mxcheck_kernels {

inline constexpr int kGateFirst = (127 - 26) << 7;  // BF16 bits of 2^-26
inline constexpr int kGateLast = (127 + 7) << 7;    // of 128
inline constexpr int kGates = kGateLast - kGateFirst;
inline constexpr int kSigmoidEntries = 2 * kGates;
static_assert(kGates == 33 * 128);

MXCHECK_SIGMOID_BOTH constexpr int sigmoid_place(std::uint32_t g) {
  int at = static_cast<int>(g >> 16 & 0x7FFF);
  at = at < kGateFirst ? kGateFirst : at;
  at = at > kGateLast - 1 ? kGateLast - 1 : at;
  return at - kGateFirst + ((g >> 31) != 0 ? kGates : 0);
}

struct Sigmoids {
  float q[kSigmoidEntries];
};

namespace sigmoid_detail {

// For |x| < 89, whose exponential FP32 holds.
constexpr float exp_rn(double x) {
  const double steps = x * 0x1.71547652b82fep+0;
  const int k = static_cast<int>(steps < 0 ? steps - 0.5 : steps + 0.5);
  const double r = (x - k * 0x1.62e42fefa3900p-1) - k * 0x1.de6af278ece60p-46;  // exact: 45 bits times 8, then small
  double p = 1;
  for (int n = 17; n > 0; --n) p = 1 + p * (r / n);
  return static_cast<float>(p * std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52));
}

constexpr Sigmoids make_sigmoids() {
  Sigmoids s{};
  for (int i = 0; i < kGates; ++i) {
    const float g = std::bit_cast<float>(static_cast<std::uint32_t>(i + kGateFirst) << 16);
    const bool beyond = g >= 89;  // exp(g) is beyond FP32's range, exp(-g) below 2^-24
    s.q[i] = beyond ? 1.0F : 1.0F / (1.0F + exp_rn(-static_cast<double>(g)));
    s.q[i + kGates] = beyond ? 0.0F : 1.0F / (1.0F + exp_rn(static_cast<double>(g)));
  }
  return s;
}

}  // namespace sigmoid_detail

#ifdef __CUDACC__
static __device__ const Sigmoids kSigmoids = sigmoid_detail::make_sigmoids();
#else
inline constexpr Sigmoids kSigmoids = sigmoid_detail::make_sigmoids();
#endif

}  // namespace mxcheck_kernels
