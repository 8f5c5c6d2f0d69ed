#pragma once
// Scores of logits and the weights of chosen experts, one by one; scores of several logits of each lane with the same
// bits, by exp_near, or where that says no by exp_rn, a lane for itself; and operations of a warp on a row of logits.

#include <cmath>
#include <cstdint>

#include "kernels/sm90/route/logits_row.cuh"
#include "kernels/sm90/route/near_math.cuh"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/route/router_math.cuh"

namespace mxcheck_kernels::sm90 {

// The numbers that a softmax needs of its row: the largest logit, and the sum.
struct Softmax {
  float largest = -INFINITY;
  float total = 0;
};

// exp(x - largest), 1 where they are equal, infinities included; +0 for NaN.
__device__ __forceinline__ float exp_below(float x, float largest) {
  return exp_rn(x == largest ? 0.0F : __fsub_rn(x, largest));
}

// The score of an expert, as docs/router.md has it; +0 for NaN. softmax: of the row, over all experts. A row of NaN
// alone has a total of 0.
__device__ __forceinline__ float score_of(Score score, float x, const Softmax& softmax) {
  if (score == Score::sigmoid) return sigmoid(x);
  if (score == Score::sqrtsoftplus) return sqrtsoftplus(x);
  return softmax.total == 0 ? 0.0F : __fdiv_rn(exp_below(x, softmax.largest), softmax.total);
}

// The value that an expert is chosen by before the bias: NaN stays NaN, and so comes last.
__device__ __forceinline__ float topk_value(Score score, float x, const Softmax& softmax) {
  if (score == Score::logits) return x;
  return x == x ? score_of(score, x, softmax) : x;
}

inline constexpr float kTiny = 1e-20F;

__device__ __forceinline__ bool divides(const Router& r) {
  return r.weights != Weights::raw && (r.weights != Weights::over_sum_plus_tiny || r.top_k > 1);
}
__device__ __forceinline__ float sum_from(const Router& r) {
  return r.weights == Weights::over_tiny_then_sum ? kTiny : 0.0F;
}
__device__ __forceinline__ float divisor_of(const Router& r, float sum) {
  return r.weights == Weights::over_sum_plus_tiny ? __fadd_rn(sum, kTiny) : sum;
}
__device__ __forceinline__ float weight_of(const Router& r, float term, float divisor) {
  const float weight = !divides(r) ? term : divisor == 0 ? 0.0F : __fdiv_rn(term, divisor);
  return __fmul_rn(weight, r.scale);
}

// Terms and scores of logits that are not near, one by one: rare, and a call, so that its registers burden no others.
inline __device__ __noinline__ float far_term(float x, float largest) { return exp_below(x, largest); }
inline __device__ __noinline__ float far_topk_value(Score score, float x, float largest, float total) {
  return topk_value(score, x, Softmax{largest, total});
}

// exp(-a[i]). Whether they are right: those of large a, of infinities and of NaN are not.
template <int kBits, int kCount>
__device__ __forceinline__ bool exps_of(const float (&a)[kCount], const NearRoots& roots, float (&e)[kCount]) {
  static_assert(kCount % 2 == 0);
  NearCheck check;
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    NearWords words[2];
    e[i] = exp_near(a[i], roots, words[0]);
    e[i + 1] = exp_near(a[i + 1], roots, words[1]);
    check.add(words[0], words[1]);
  }
  return check.passes<kBits>();
}

// exp_below(x[i], largest), where that is not -0. All lanes of a warp call together.
template <int kBits, int kCount>
__device__ __forceinline__ bool near_terms_of(const float (&x)[kCount], float largest, const NearRoots& roots,
                                              float (&e)[kCount]) {
  float a[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) a[i] = __fsub_rn(largest, x[i]);  // +0 where equal
  return exps_of<kBits>(a, roots, e);
}

template <int kCount>
__device__ __forceinline__ void terms_of(const float (&x)[kCount], float largest, const NearRoots& roots,
                                         float (&e)[kCount]) {
  if (near_terms_of<12>(x, largest, roots, e)) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) e[i] = far_term(x[i], largest);
}

// The scores of numbers near 0, those of softmax of numbers near the largest. Whether they are right.
template <int kCount>
__device__ __forceinline__ bool near_scores_of(Score score, const float (&x)[kCount], const Softmax& softmax,
                                               const NearRoots& roots, float (&s)[kCount]) {
  float e[kCount];
  if (score == Score::softmax) {
    const bool right = near_terms_of<11>(x, softmax.largest, roots, e);
    const float inverse = __frcp_rn(softmax.total);
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] = quotient_near(e[i], softmax.total, inverse);
    return right;
  }
  float a[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) a[i] = fabsf(x[i]);
  const bool right = exps_of<11>(a, roots, e);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (score == Score::sigmoid) {
      const float d = __fadd_rn(1.0F, e[i]);
      s[i] = quotient_near(x[i] >= 0 ? 1.0F : e[i], d, nearer_reciprocal(d, hardware_reciprocal(d)));
    } else {
      s[i] = __fsqrt_rn(__fadd_rn(fmaxf(x[i], 0.0F), log1p_rn(e[i])));
    }
  }
  return right;
}

// topk_value(score, x[i], softmax): scores, but NaN stays NaN. All lanes of a warp call together.
template <int kCount>
__device__ __forceinline__ void topk_values(Score score, const float (&x)[kCount], const Softmax& softmax,
                                            const NearRoots& roots, float (&s)[kCount]) {
  if (score == Score::logits) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] = x[i];
  } else if (!near_scores_of(score, x, softmax, roots, s)) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] = far_topk_value(score, x[i], softmax.largest, softmax.total);
  }
}

// ---- Warp-level operations on a row ----

__device__ __forceinline__ Key32 first_of_warp(Key32 key) {
  const auto upper = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t first = __reduce_min_sync(kWarp, upper);
  const std::uint32_t lower = __reduce_min_sync(kWarp, upper == first ? static_cast<std::uint32_t>(key) : ~0U);
  return Key32{first} << 32 | lower;
}

// Largest logit and pairwise sum over all experts. Lanes hold 4 neighbours of each 128, two levels of the tree; the
// lanes are five more; lane i keeps the sum of the i-th 128, and the lanes are five levels again. What is past the row
// is +0, which adds nothing.
template <Logits kType>
__device__ __forceinline__ Softmax softmax_of_row(const void* row, int experts, int lane) {
  constexpr int kBlock = 4 * 32;
  const NearRoots roots = near_roots();
  static_assert(kMostExperts <= kBlock * 32);
  float y = float_of(0x7FFFFFFFU);
  for (int e = lane; e < experts; e += 32) y = fminf(y, negated(logit_at<kType>(row, e)));
#pragma unroll
  for (int step = 16; step > 0; step /= 2) y = fminf(y, __shfl_xor_sync(kWarp, y, step));
  Softmax softmax;
  softmax.largest = negated(y);  // no -0; NaN only of a row of NaN: every term is +0 then
  float mine = 0;
  for (int block = 0; block * kBlock < experts; ++block) {
    const int first = block * kBlock + lane * 4;
    float x[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) x[t] = logit_at<kType>(row, min(first + t, experts - 1));
    float terms[4];
    terms_of(x, softmax.largest, roots, terms);
#pragma unroll
    for (int t = 0; t < 4; ++t) terms[t] = first + t < experts ? terms[t] : 0.0F;
    float sum = __fadd_rn(__fadd_rn(terms[0], terms[1]), __fadd_rn(terms[2], terms[3]));
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, step));
    if (lane == block) mine = sum;
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) mine = __fadd_rn(mine, __shfl_xor_sync(kWarp, mine, step));
  softmax.total = mine;
  return softmax;
}

// Calls take(value, rank) for the first `count` of 32 x kMany values, in the order of ranks; that of rank i * 32 + l is
// in values[i] of lane l.
template <int kMany, class Take>
__device__ __forceinline__ void in_order(const float (&values)[kMany], int count, const Take& take) {
#pragma unroll
  for (int i = 0; i < kMany; ++i) {
    const int here = min(count - i * 32, 32);
    for (int l = 0; l < here; ++l) take(__shfl_sync(kWarp, values[i], l), i * 32 + l);
  }
}

}  // namespace mxcheck_kernels::sm90
