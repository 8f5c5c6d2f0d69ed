#pragma once
// Warp-level operations on a row of logits.

#include "kernels/sm90/route/row/groups.cuh"
#include "kernels/sm90/route/row/score_near.cuh"

namespace mxcheck_kernels::sm90 {

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
