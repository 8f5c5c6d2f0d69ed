#pragma once
// Exponentials and scores of several logits of each lane, with the bits of row/weights.cuh: by exp_near, or where that
// says no by exp_rn, a lane for itself.

#include "kernels/sm90/route/row/exp_near.cuh"
#include "kernels/sm90/route/row/quotient.cuh"
#include "kernels/sm90/route/row/weights.cuh"

namespace mxcheck_kernels::sm90 {

// Terms and scores of logits that are not near, one by one: rare, and a call, so that its registers burden no others.
inline __device__ __noinline__ float far_term(float x, float largest) { return exp_below(x, largest); }
inline __device__ __noinline__ float far_choice(Score score, float x, float largest, float total) {
  return choice_of(score, x, Softmax{largest, total});
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

// choice_of(score, x[i], softmax): scores, but NaN stays NaN. All lanes of a warp call together.
template <int kCount>
__device__ __forceinline__ void choices_of(Score score, const float (&x)[kCount], const Softmax& softmax,
                                           const NearRoots& roots, float (&s)[kCount]) {
  if (score == Score::logits) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] = x[i];
  } else if (!near_scores_of(score, x, softmax, roots, s)) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] = far_choice(score, x[i], softmax.largest, softmax.total);
  }
}

}  // namespace mxcheck_kernels::sm90
