#include "kernels/sm90/train/elementwise/balance.h"

#include <cooperative_groups.h>

#include "kernels/sm90/route/router_scores.cuh"
#include "kernels/sm90/train/elementwise/numbers.cuh"
#include "kernels/sm90/train/elementwise/rows.h"

namespace mxcheck_kernels::sm90 {
namespace {

// A sum of numbers in [0, 1] in units of 2^-kUnit, digits of 32 bits in words of 64: 2^30 additions fit before a carry.
template <int kUnit_, int kDigits_>
struct ExactSum {
  static constexpr int kUnit = kUnit_;
  static constexpr int kDigits = kDigits_;
  unsigned long long digits[kDigits];
};
// Every FP32 number is a multiple of 2^-149, every product of two one of 2^-298. Sums are below 2^24.
using ScoreSum = ExactSum<149, 6>;
using ProductSum = ExactSum<298, 11>;

struct Parts {
  std::uint32_t mantissa;
  int shift;  // the number is mantissa * 2^(shift - 149)
};
__device__ __forceinline__ Parts parts_of(float x) {  // 0 <= x, finite
  const std::uint32_t bits = __float_as_uint(x);
  const auto exponent = static_cast<int>(bits >> 23);
  return exponent == 0 ? Parts{bits, 0} : Parts{(bits & 0x7FFFFF) | 0x800000, exponent - 1};
}

// mantissa * 2^shift units. Every digit is looked at, so that all stay in registers.
template <class Sum>
__device__ __forceinline__ void add_units(Sum& sum, std::uint64_t mantissa, int shift) {
  const int digit = shift / 32;
  const std::uint64_t low = (mantissa & 0xFFFFFFFF) << shift % 32;
  const std::uint64_t high = ((mantissa >> 32) << shift % 32) + (low >> 32);
#pragma unroll
  for (int i = 0; i < Sum::kDigits; ++i) {
    const std::uint64_t here = i == digit       ? low & 0xFFFFFFFF
                               : i == digit + 1 ? high & 0xFFFFFFFF
                               : i == digit + 2 ? high >> 32
                                                : 0;
    sum.digits[i] += here;
  }
}

__device__ __forceinline__ unsigned long long sum_of_lanes(unsigned long long x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// 2^e of an FP32 number, -149 <= e <= 127.
__device__ __forceinline__ float power_of_two(int e) {
  return __uint_as_float(e >= -126 ? static_cast<std::uint32_t>(e + 127) << 23 : 1U << (e + 149));
}

// To nearest, ties to even. Both factors are exact: the result has no digits below 2^-149.
template <class Sum>
__device__ float rounded(Sum& sum) {
  int top = -1;
  for (int i = 0; i < Sum::kDigits; ++i) {
    if (i + 1 < Sum::kDigits) sum.digits[i + 1] += sum.digits[i] >> 32;
    sum.digits[i] &= 0xFFFFFFFF;
    if (sum.digits[i] != 0) top = i * 32 + 31 - __clz(static_cast<int>(sum.digits[i]));
  }
  if (top < 0) return 0;
  const int last = max(top - 23, Sum::kUnit - 149);  // the bit that is the result's lowest
  const auto bit = [&](int at) { return static_cast<std::uint32_t>(sum.digits[at / 32] >> at % 32) & 1U; };
  std::uint32_t mantissa = 0;
  for (int at = top; at >= last; --at) mantissa = mantissa << 1 | bit(at);
  if (last > 0 && bit(last - 1) != 0) {
    bool rest = false;
    for (int at = 0; at < last - 1 && !rest; ++at) rest = bit(at) != 0;
    if (rest || (mantissa & 1U) != 0) ++mantissa;
  }
  return mul(static_cast<float>(mantissa), power_of_two(last - Sum::kUnit));
}

__global__ void balance_scores(const __grid_constant__ BalanceJob job) {
  const std::int64_t token = std::int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  if (token >= job.tokens) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* const row = job.logits + token * job.experts;
  const Softmax softmax = softmax_of_row<Logits::fp32>(row, job.experts, lane);
  for (int e = lane; e < job.experts; e += 32)
    job.scores[token * job.experts + e] = score_of(Score::softmax, row[e], softmax);
}

// A cluster of blocks an expert: P_e. Its sum is exact: in which order it is added does not matter.
constexpr unsigned kMeanBlocks = 8;
__global__ void __cluster_dims__(kMeanBlocks) balance_mean(const __grid_constant__ BalanceJob job) {
  const auto cluster = cooperative_groups::this_cluster();
  __shared__ ScoreSum all;
  if (threadIdx.x < ScoreSum::kDigits) all.digits[threadIdx.x] = 0;
  cluster.sync();
  const auto expert = static_cast<int>(blockIdx.x / kMeanBlocks);
  ScoreSum mine = {};
  for (std::int64_t t = cluster.thread_rank(); t < job.tokens; t += cluster.num_threads()) {
    const float score = job.scores[t * job.experts + expert];
    const Parts p = parts_of(score > 0 ? score : 0.0F);  // of logits that are not finite nothing is asked
    add_units(mine, p.mantissa, p.shift);
  }
  ScoreSum* const of_expert = cluster.map_shared_rank(&all, 0);
#pragma unroll
  for (int i = 0; i < ScoreSum::kDigits; ++i) {
    const unsigned long long of_warp = sum_of_lanes(mine.digits[i]);
    if (threadIdx.x % 32 == 0) atomicAdd(&of_expert->digits[i], of_warp);
  }
  cluster.sync();
  if (cluster.thread_rank() == 0) job.mean[expert] = div(rounded(all), static_cast<float>(job.tokens));
}

// One warp: the loss of a layer, and c_e.
__global__ void balance_loss(const __grid_constant__ BalanceJob job) {
  const auto lane = static_cast<int>(threadIdx.x);
  unsigned long long routes = 0;
  for (int e = lane; e < job.experts; e += 32) routes += static_cast<unsigned long long>(job.counts[e]);
  routes = sum_of_lanes(routes);
  const float factor = mul(job.coefficient, static_cast<float>(job.experts));
  ProductSum sum = {};
  for (int e = lane; e < job.experts; e += 32) {
    const float f = div(static_cast<float>(job.counts[e]), static_cast<float>(routes));
    job.slope[e] = div(mul(factor, f), static_cast<float>(job.tokens));
    const Parts a = parts_of(f);
    const Parts b = parts_of(job.mean[e]);
    add_units(sum, std::uint64_t{a.mantissa} * b.mantissa, a.shift + b.shift);
  }
#pragma unroll
  for (int i = 0; i < ProductSum::kDigits; ++i) sum.digits[i] = sum_of_lanes(sum.digits[i]);
  if (lane == 0) *job.loss = mul(rounded(sum), factor);
}

__global__ void balance_gradient(const __grid_constant__ BalanceJob job) {
  const std::int64_t token = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (token >= job.tokens) return;
  const float* const p = job.scores + token * job.experts;
  float* const out = job.gradient + token * job.experts;
  float weighted = 0;
  for (int e = 0; e < job.experts; ++e) weighted = __fmaf_rn(job.slope[e], p[e], weighted);
  for (int e = 0; e < job.experts; ++e) out[e] = mul(p[e], sub(job.slope[e], weighted));
}

}  // namespace

cudaError_t launch_balance(const BalanceJob& job, cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  const RowLaunch at = row_launch(job.tokens, 1);
  balance_scores<<<at.blocks, at.threads, 0, stream>>>(job);
  balance_mean<<<static_cast<unsigned>(job.experts) * kMeanBlocks, kThreads, 0, stream>>>(job);
  balance_loss<<<1, 32, 0, stream>>>(job);
  if (job.gradient != nullptr) {
    balance_gradient<<<element_blocks(job.tokens), kElementThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
