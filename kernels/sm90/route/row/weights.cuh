#pragma once
// The weights of chosen experts: what each adds to the sum, and what it is divided by.

#include <cmath>
#include <cstdint>

#include "kernels/sm90/route/router.h"
#include "kernels/sm90/route/row/math.cuh"

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
__device__ __forceinline__ float choice_of(Score score, float x, const Softmax& softmax) {
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

}  // namespace mxcheck_kernels::sm90
