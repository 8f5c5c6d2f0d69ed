#include "kernels/sm90/train/train_kernels.h"

#include <cooperative_groups.h>

#include "kernels/sm90/route/router_scores.cuh"
#include "kernels/sm90/train/train_rows.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

__device__ __forceinline__ std::int64_t thread_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__global__ void no_overflow(RouterOverflow* overflow) { *overflow = {0, INT32_MAX}; }

__global__ void check_finite(const float* logits, std::int64_t count, int layer, RouterOverflow* overflow) {
  const std::int64_t i = thread_index();
  if (i >= count || fabsf(logits[i]) < INFINITY) return;
  atomicMin(&overflow->layer, layer);
  overflow->found = 1;
}

__global__ void row_weights(const std::int32_t* row_slot, const float* weights, std::int64_t rows, float* row_weight) {
  const std::int64_t r = thread_index();
  if (r < rows) row_weight[r] = weights[row_slot[r]];
}

__global__ void slot_gradient(const std::int32_t* slot_row, const float* ds, std::int64_t slots, float* gradient) {
  const std::int64_t s = thread_index();
  if (s < slots) gradient[s] = ds[slot_row[s]];
}

// The last expert whose rows begin at or before this one.
__device__ __forceinline__ int expert_of(const std::int64_t* offsets, int experts, std::int64_t row) {
  int low = 0;
  int high = experts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (offsets[middle] <= row ? low : high) = middle;
  }
  return low;
}

__global__ void padded_slots(const __grid_constant__ PaddedSlotsJob job) {
  const std::int64_t i = thread_index();
  if (i >= job.tokens * job.width) return;
  const std::int64_t token = i / job.width;
  const std::int64_t slot = job.token_offsets[token] + i % job.width;
  const bool taken = slot < job.token_offsets[token + 1];
  const std::int32_t row = taken ? job.token_rows[slot] : 0;
  job.slot_experts[i] = taken ? expert_of(job.offsets, job.experts, row) : -1;
  job.gradient[i] = taken ? job.ds[row] : 0.0F;
}

__global__ void rounded_sum(const float* a, const float* b, std::int64_t count, std::uint16_t* out) {
  const std::int64_t i = thread_index();
  if (i < count) out[i] = to_bf16(add(a[i], b[i]));
}

// ---- The load-balancing loss ----

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

cudaError_t launch_no_overflow(RouterOverflow* overflow, cudaStream_t stream) {
  no_overflow<<<1, 1, 0, stream>>>(overflow);
  return cudaGetLastError();
}

cudaError_t launch_check_finite(const float* logits, std::int64_t count, int layer, RouterOverflow* overflow,
                                cudaStream_t stream) {
  check_finite<<<element_blocks(count), kElementThreads, 0, stream>>>(logits, count, layer, overflow);
  return cudaGetLastError();
}

cudaError_t launch_row_weights(const std::int32_t* row_slot, const float* weights, std::int64_t rows, float* row_weight,
                               cudaStream_t stream) {
  row_weights<<<element_blocks(rows), kElementThreads, 0, stream>>>(row_slot, weights, rows, row_weight);
  return cudaGetLastError();
}

cudaError_t launch_slot_gradient(const std::int32_t* slot_row, const float* ds, std::int64_t slots, float* gradient,
                                 cudaStream_t stream) {
  slot_gradient<<<element_blocks(slots), kElementThreads, 0, stream>>>(slot_row, ds, slots, gradient);
  return cudaGetLastError();
}

cudaError_t launch_padded_slots(const PaddedSlotsJob& job, cudaStream_t stream) {
  padded_slots<<<element_blocks(job.tokens * job.width), kElementThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_rounded_sum(const float* a, const float* b, std::int64_t count, std::uint16_t* out,
                               cudaStream_t stream) {
  rounded_sum<<<element_blocks(count), kElementThreads, 0, stream>>>(a, b, count, out);
  return cudaGetLastError();
}

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
