// The gradient of logits from that of the weights: one warp a row.

#include <algorithm>

#include "kernels/sm90/route/logits_row.cuh"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/route/router_scores.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kMostShared = 48 << 10;
constexpr int kMostWarps = 8;

// Room for a row in shared memory, in floats: whole groups.
__host__ __device__ constexpr int padded(int experts) { return (experts + kGroup - 1) / kGroup * kGroup; }
static_assert(kMostExperts * sizeof(float) <= kMostShared);

// The routes of a row, lane l holding those of rank l, l + 32, ...: kMany of them.
template <int kMany>
struct Routes {
  int experts[kMany];     // negative: none
  unsigned real[kMany];   // a bit a lane: not none
  float logits[kMany];    // NaN for none
  float gradient[kMany];  // of the weight, times scale; later of the score
  float scores[kMany];    // +0 for none and for NaN; of softmax_of_kept the exponential
  float weights[kMany];   // before scale

  template <Logits kType>
  __device__ __forceinline__ void read(const BackwardJob& job, std::int64_t token, const void* row, int lane) {
    const Router& r = job.router;
#pragma unroll
    for (int i = 0; i < kMany; ++i) {
      const int k = i * 32 + lane;
      const std::int64_t slot = token * r.top_k + k;
      experts[i] = k < r.top_k ? __ldg(job.experts + slot) : -1;
      const bool is_real = experts[i] >= 0;
      real[i] = __ballot_sync(kWarp, is_real);
      gradient[i] = is_real ? __fmul_rn(__ldg(job.gradient + slot), r.scale) : 0.0F;
      logits[i] = is_real ? logit_at<kType>(row, experts[i]) : float_of(0x7FFFFFFFU);
    }
  }

  // Scores, and the weights over their divisor, which is returned.
  __device__ __forceinline__ float weigh(const Router& r, const Softmax& softmax) {
    float largest = -INFINITY;
    if (r.score == Score::logits) {
#pragma unroll
      for (int i = 0; i < kMany; ++i) largest = fmaxf(largest, logits[i]);
#pragma unroll
      for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, step));
    }
    float sum = sum_from(r);
#pragma unroll
    for (int i = 0; i < kMany; ++i) {
      scores[i] = r.score == Score::logits ? exp_below(logits[i], largest) : score_of(r.score, logits[i], softmax);
    }
    in_order(scores, r.top_k, [&sum](float score, int) { sum = __fadd_rn(sum, score); });  // + 0 for none
    const float divisor = divisor_of(r, sum);
#pragma unroll
    for (int i = 0; i < kMany; ++i) {
      weights[i] = !divides(r) ? scores[i] : divisor == 0 ? 0.0F : __fdiv_rn(scores[i], divisor);
    }
    return divisor;
  }

  // sum_k gradient_k * values_k, fused, in the order of ranks. None is skipped: + 0 could change a sum of -0.
  __device__ __forceinline__ float dot(const Router& r, const float (&values)[kMany]) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kMany; ++i) {
      const int here = min(r.top_k - i * 32, 32);
      for (int l = 0; l < here; ++l) {
        const float g = __shfl_sync(kWarp, gradient[i], l);
        const float v = __shfl_sync(kWarp, values[i], l);
        if ((real[i] >> l & 1U) != 0) sum = __fmaf_rn(g, v, sum);
      }
    }
    return sum;
  }

  // Writes each route's value to its expert; of routes to the same expert the last stays.
  __device__ __forceinline__ void scatter(const float (&values)[kMany], float* out, int lane) const {
#pragma unroll
    for (int i = 0; i < kMany; ++i) {
      const unsigned same = __match_any_sync(kWarp, experts[i]);
      if (experts[i] >= 0 && same >> lane == 1U) out[experts[i]] = values[i];
      __syncwarp();
    }
  }
};

// The gradient through the weights: of softmax_of_kept that of the logits, else that of the scores.
template <int kMany>
__device__ __forceinline__ void through_weights(const Router& r, Routes<kMany>& routes, float divisor) {
  if (!divides(r)) return;
  const float sum = routes.dot(r, routes.weights);
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    const float difference = __fsub_rn(routes.gradient[i], sum);
    if (r.score == Score::logits) {
      routes.gradient[i] = __fmul_rn(routes.weights[i], difference);
    } else {
      routes.gradient[i] = divisor == 0 ? 0.0F : __fdiv_rn(difference, divisor);
    }
  }
}

__device__ __forceinline__ float through_element(Score score, float x, float s, float h) {
  if (score == Score::sigmoid) return __fmul_rn(h, __fmul_rn(sigmoid(x), sigmoid(-x)));
  return s == 0 ? 0.0F : __fmul_rn(h, __fdiv_rn(sigmoid(x), __fmul_rn(2.0F, s)));
}

template <Logits kType>
__device__ __forceinline__ void write_row(const Router& r, void* out, std::int64_t token, const float* values, int lane,
                                          bool aligned) {
  const std::int64_t first = token * r.experts;
  constexpr bool kHalf = kType == Logits::bf16;
  if (aligned) {
    for (int g = lane; g < r.experts / kGroup; g += 32) {
      const float4 a = reinterpret_cast<const float4*>(values)[g * 2];
      const float4 b = reinterpret_cast<const float4*>(values)[g * 2 + 1];
      if constexpr (kHalf) {
        const uint4 x = {rounded2(a.x, a.y), rounded2(a.z, a.w), rounded2(b.x, b.y), rounded2(b.z, b.w)};
        reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(out) + first)[g] = x;
      } else {
        auto* const at = reinterpret_cast<float4*>(static_cast<float*>(out) + first) + g * 2;
        at[0] = a, at[1] = b;
      }
    }
    return;
  }
  for (int e = lane; e < r.experts; e += 32) {
    if constexpr (kHalf) {
      static_cast<std::uint16_t*>(out)[first + e] = static_cast<std::uint16_t>(rounded2(values[e], 0.0F));
    } else {
      static_cast<float*>(out)[first + e] = values[e];
    }
  }
}

template <Logits kType, int kMany>
__global__ void __launch_bounds__(kMostWarps * 32) backward_row(const __grid_constant__ BackwardJob job, bool aligned) {
  const Router& r = job.router;
  if (r.stop != nullptr && *r.stop != 0) return;
  extern __shared__ float4 shared[];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t token = std::int64_t{blockIdx.x} * (blockDim.x / 32) + warp;
  if (token >= r.tokens) return;  // all 32 lanes
  const void* const row = row_of(r, token);
  float* const values = reinterpret_cast<float*>(shared) + static_cast<std::ptrdiff_t>(warp) * padded(r.experts);

  Softmax softmax;
  if (r.score == Score::softmax) softmax = softmax_of_row<kType>(row, r.experts, lane);
  Routes<kMany> routes;
  routes.template read<kType>(job, token, row, lane);
  const float divisor = routes.weigh(r, softmax);
  through_weights(r, routes, divisor);
  float(&result)[kMany] = routes.gradient;
  if (r.score == Score::softmax) {
    const float sum = routes.dot(r, routes.scores);
    const float rest = __fsub_rn(0.0F, sum);
    for (int e = lane; e < r.experts; e += 32) {
      const float x = logit_at<kType>(row, e);
      values[e] = x == x ? __fmul_rn(score_of(Score::softmax, x, softmax), rest) : 0.0F;
    }
#pragma unroll
    for (int i = 0; i < kMany; ++i) result[i] = __fmul_rn(routes.scores[i], __fsub_rn(routes.gradient[i], sum));
  } else {
    for (int q = lane; q < padded(r.experts) / 4; q += 32) reinterpret_cast<float4*>(values)[q] = {0, 0, 0, 0};
    if (r.score != Score::logits) {
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        result[i] = through_element(r.score, routes.logits[i], routes.scores[i], routes.gradient[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    if (routes.logits[i] != routes.logits[i]) result[i] = 0;
  }
  __syncwarp();
  routes.scatter(result, values, lane);
  write_row<kType>(r, job.out, token, values, lane, aligned);
}

template <Logits kType>
void launch(const BackwardJob& job, bool aligned, cudaStream_t stream) {
  const Router& r = job.router;
  const int bytes = padded(r.experts) * static_cast<int>(sizeof(float));
  const int warps = std::clamp(kMostShared / bytes, 1, kMostWarps);
  const auto blocks = static_cast<unsigned>((std::int64_t{r.tokens} + warps - 1) / warps);
  const auto threads = static_cast<unsigned>(warps * 32);
  const auto shared = static_cast<std::size_t>(warps) * static_cast<std::size_t>(bytes);
  if (r.top_k <= 32) {
    backward_row<kType, 1><<<blocks, threads, shared, stream>>>(job, aligned);
  } else {
    backward_row<kType, kMostKept / 32><<<blocks, threads, shared, stream>>>(job, aligned);
  }
}

}  // namespace

cudaError_t launch_backward(const BackwardJob& job, cudaStream_t stream) {
  if (job.router.tokens == 0) return cudaSuccess;
  const bool aligned = reinterpret_cast<std::uintptr_t>(job.out) % 16 == 0 && job.router.experts % kGroup == 0;
  if (job.router.type == Logits::bf16) {
    launch<Logits::bf16>(job, aligned, stream);
  } else {
    launch<Logits::fp32>(job, aligned, stream);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
