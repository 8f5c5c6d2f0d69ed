#pragma once
// The order that keys of 32 bits leave open, where values have 32 bits of their own. Such a key has the index in its
// low bits and so many bits less of the value: keys that differ above the index are in order, and others may not be.
// Nor are logits in the order of their softmax where that makes them equal.
//
// Four lanes hold the ranks of a row: rank lane * kPer + i is at [i].

#include "kernels/sm90/route/row/row.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kLanes = 4;  // of a row

// `low` covers the index: a cell is what keys of the same bits above have in common.
__device__ __forceinline__ Key16 cut_key_of(float negative, std::uint32_t index, std::uint32_t low) {
  return (folded(word_of(negative)) & ~low) | index;
}

// The largest value of a key's cell.
__device__ __forceinline__ float top_of_cell(Key16 key, std::uint32_t low) { return -float_of(unfolded(key & ~low)); }

// Whether no value of the row loses anything in a key. NaN never does, as there is one NaN.
template <Logits kType>
__device__ __forceinline__ bool nothing_is_cut(const void* row, int experts, std::uint32_t low, int lane) {
  std::uint32_t cut = 0;
  for (int e = lane; e < experts; e += kLanes) {
    const float x = logit_at<kType>(row, e);
    if (x == x) cut |= word_of(x) & low;
  }
  cut |= __shfl_xor_sync(kWarp, cut, 1);
  cut |= __shfl_xor_sync(kWarp, cut, 2);
  return cut == 0;
}

// Whether a comes after b in the order of (value, expert), NaN aside. Where equal values are in order, kTies is false.
template <bool kTies>
__device__ __forceinline__ bool is_after(float a, int expert_a, float b, int expert_b) {
  return a < b || (kTies && a == b && expert_a > expert_b);
}

// The key, and the value, that expert e of a row is chosen by.
template <Logits kType>
__device__ __forceinline__ Key32 exact_key(const Router& r, Score score, const Softmax& softmax, const void* row, int e,
                                           float& value) {
  value = choice_of(score, logit_at<kType>(row, e), softmax);
  if (r.bias != nullptr) value = __fadd_rn(value, __ldg(r.bias + e));
  return key_of(negated(value), static_cast<std::uint32_t>(e));
}

inline constexpr int kCandidates = 4;  // of a lane

// The keys of a row's experts whose value is not less than `least`, if no lane has more than kCandidates.
template <Logits kType>
__device__ __forceinline__ bool find_candidates(const Router& r, Score score, const Softmax& softmax, const void* row,
                                                float least, Key32 (&mine)[kCandidates]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int count = 0;
#pragma unroll
  for (Key32& key : mine) key = kAbsent<Key32>;
  for (int e = lane; e < r.experts; e += 32) {
    float value = 0;
    const Key32 key = exact_key<kType>(r, score, softmax, row, e, value);
    if (value < least) continue;
    ++count;
#pragma unroll
    for (int i = kCandidates - 1; i > 0; --i) mine[i] = mine[i - 1];
    mine[0] = key;
  }
  return __all_sync(kWarp, count <= kCandidates);
}

// The experts of rows of which the four lanes' bits are set in `open`, by the whole warp, a row and a rank at a time.
// `least_of_row`: of top_k experts of the row none has a smaller value, so that none with a smaller one is chosen.
template <Logits kType, int kPer>
__device__ __noinline__ void choose_slowly(const Router& r, Score score, Softmax of_row, float least_of_row,
                                           std::int64_t token, unsigned open, int (&experts)[kPer]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  while (open != 0) {
    const int first = __ffs(static_cast<int>(open)) - 1;
    open &= ~(0xFU << first);
    const void* const row = row_of(r, __shfl_sync(kWarp, token, first));
    const Softmax softmax{__shfl_sync(kWarp, of_row.largest, first), __shfl_sync(kWarp, of_row.total, first)};
    Key32 mine[kCandidates];
    const bool few = find_candidates<kType>(r, score, softmax, row, __shfl_sync(kWarp, least_of_row, first), mine);
    Key32 taken = 0;  // less than every key
    for (int k = 0; k < r.top_k; ++k) {
      Key32 next = kAbsent<Key32>;
      if (few) {
#pragma unroll
        for (const Key32 key : mine) next = key > taken ? smaller(next, key) : next;
      } else {
        float value = 0;
        for (int e = lane; e < r.experts; e += 32) {
          const Key32 key = exact_key<kType>(r, score, softmax, row, e, value);
          next = key > taken ? smaller(next, key) : next;
        }
      }
      taken = first_of_warp(next);
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        if (lane == first + k / kPer && i == k % kPer) experts[i] = static_cast<int>(index_of(taken));
      }
    }
  }
}

// Neighbours change places until none comes after the next one. Whether any of the warp did.
template <bool kTies, int kPer>
__device__ __forceinline__ bool put_in_order(int (&experts)[kPer], float (&values)[kPer], int lane) {
  for (bool changed = false;; changed = true) {
    const float value_below = __shfl_sync(kWarp, values[0], lane + 1, kLanes);
    const int expert_below = __shfl_sync(kWarp, experts[0], lane + 1, kLanes);
    const bool has_below = lane + 1 < kLanes;
    bool again = has_below && is_after<kTies>(values[kPer - 1], experts[kPer - 1], value_below, expert_below);
#pragma unroll
    for (int i = 0; i + 1 < kPer; ++i)
      again = again || is_after<kTies>(values[i], experts[i], values[i + 1], experts[i + 1]);
    if (__ballot_sync(kWarp, again) == 0) return changed;
    const float value_above = __shfl_sync(kWarp, values[kPer - 1], lane - 1, kLanes);
    const int expert_above = __shfl_sync(kWarp, experts[kPer - 1], lane - 1, kLanes);
    if (lane > 0 && is_after<kTies>(value_above, expert_above, values[0], experts[0])) {
      values[0] = value_above, experts[0] = expert_above;
    }
    if (has_below && is_after<kTies>(values[kPer - 1], experts[kPer - 1], value_below, expert_below)) {
      values[kPer - 1] = value_below, experts[kPer - 1] = expert_below;
    }
#pragma unroll
    for (int i = 0; i + 1 < kPer; ++i) {
      if (!is_after<kTies>(values[i], experts[i], values[i + 1], experts[i + 1])) continue;
      const float value = values[i];
      const int expert = experts[i];
      values[i] = values[i + 1], experts[i] = experts[i + 1];
      values[i + 1] = value, experts[i + 1] = expert;
    }
  }
}

}  // namespace mxcheck_kernels::sm90
