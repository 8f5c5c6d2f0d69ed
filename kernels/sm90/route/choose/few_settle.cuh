#pragma once
// The chosen experts of a row of few.cuh put in their exact order, with their scores.

#include "kernels/sm90/route/choose/few_list.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct FewSettle : FewList<kType, kChoice, kList> {
  using Base = FewList<kType, kChoice, kList>;
  using Base::job, Base::row, Base::lane, Base::low, Base::roots, Base::softmax, Base::rest, Base::logit_of,
      Base::bias_of;
  using Base::kHalf, Base::kCut, Base::kPer, Base::kScore, Base::kScoresLater, Base::kBiased;
  using typename Base::Key;

  // Where scores are not monotonic in logits that of the next logit is made with those of the ranks.
  static constexpr bool kBound = kScoresLater && kScore != Score::softmax;

  // Between the chosen and all others.
  struct Boundary {
    Key last;      // of the chosen
    bool meets;    // the others share a cell with the chosen
    Key next;      // the first cell that others can be in, the last's aside
    float beyond;  // and its largest logit. NaN: there is none
  };
  __device__ __forceinline__ Boundary boundary_of(const Key (&ranks)[kPer]) const {
    const std::uint32_t index = kHalf ? 0xFFFFU : low;
    Key last = 0;
    Key first = rest;
#pragma unroll
    for (int i = 0; i < kPer; ++i) last = lane * kPer + i < job.router.top_k ? ranks[i] : last;
#pragma unroll
    for (int bit = 1; bit < kLanes; bit *= 2) {
      last = larger(last, __shfl_xor_sync(kWarp, last, bit));
      first = smaller(first, __shfl_xor_sync(kWarp, first, bit));
    }
    const bool meets = first <= (last | index);
    const Key next = meets ? (last | index) + 1 : first;
    return {last, meets, next, kHalf ? value_of(next) : top_of_cell(next, index)};
  }

  // Settles what keys leave open. Ranks from top_k on are wanted too: one may turn out to be better than top_k - 1.
  // terms: logits, in whose place scores are left where there are any.
  __device__ __forceinline__ void settle(const Key (&ranks)[kPer], std::int64_t token, std::int32_t (&experts)[kPer],
                                         float (&terms)[kPer]) const {
    const Boundary boundary = boundary_of(ranks);
    constexpr int kCount = kBound ? kPer + 2 : kPer;  // an even number
    float x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = i < kPer ? terms[i < kPer ? i : 0] : boundary.beyond;
    float scores[kCount];
    choices_of(kScore, x, softmax, roots, scores);
    float values[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      terms[i] = scores[i];
      values[i] = kBiased ? __fadd_rn(scores[i], bias_of(experts[i])) : scores[i];
    }
    const bool changed = put_in_order<kScoresLater, kPer>(experts, values, lane);
    const unsigned all_open = __ballot_sync(kWarp, is_open(boundary, changed, values, scores[kCount - 1]));
    if (!changed && all_open == 0) return;
    if (all_open != 0) {
      choose_slowly<kType, kPer>(job.router, kScore, softmax, least_of_chosen(values), token, all_open, experts);
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (kScoresLater && all_open == 0) {
        terms[i] = values[i];
      } else {
        terms[i] = logit_of(experts[i]);
        if (kScore != Score::logits) terms[i] = far_choice(kScore, terms[i], softmax.largest, softmax.total);
      }
    }
  }

  // Whether others may come before the chosen. changed: the ranks' order was not that of the keys. bound: where kBound
  // the score of boundary.beyond.
  __device__ __forceinline__ bool is_open(const Boundary& boundary, bool changed, const float (&values)[kPer],
                                          float bound) const {
    const bool meets = boundary.meets;
    bool open = false;
    if constexpr (kBiased) {
      open = meets;
    } else if (kCut && __ballot_sync(kWarp, meets) != 0) {
      open = !nothing_is_cut<kType>(row, job.router.experts, low, lane) && meets;
    }
    if constexpr (kScoresLater) {
      // Others of the same logit as the last have higher indices, and come after all that are where their logits put
      // them; of the next logit and below they must have a smaller score.
      open = open || (meets && changed);
      const float least = least_of_chosen(values);
      if constexpr (kBound) {
        open = open || __fmaf_ru(bound, kNearlyMonotonic, bound) >= least;
      } else if (!scores_differ(boundary.last, boundary.next, least)) {
        open = open || far_choice(kScore, boundary.beyond, softmax.largest, softmax.total) >= least;
      }
    }
    return open;
  }

  // The least value of a row's chosen experts; NaN aside.
  __device__ __forceinline__ float least_of_chosen(const float (&values)[kPer]) const {
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < kPer; ++i) least = lane * kPer + i < job.router.top_k ? fminf(values[i], least) : least;
    least = fminf(least, __shfl_xor_sync(kWarp, least, 1));
    return fminf(least, __shfl_xor_sync(kWarp, least, 2));
  }

  // Whether it is certain that the softmax of logit `next` is less than that of `last`, which is `least`. Where logits
  // are 2^-16 apart their differences from the row's largest, above -70, are 2^-17 apart: rounding moves each by 2^-18
  // at most. So exact exponentials differ by a factor above 1 + 2^-18, and exp and division round by 2^-24 each.
  __device__ __forceinline__ bool scores_differ(Key last, Key next, float least) const {
    if constexpr (kHalf && kScore == Score::softmax) {
      return least >= 0x1p-100F && __fsub_rn(value_of(last), value_of(next)) >= 0x1p-16F;
    } else {
      return false;
    }
  }
};

}  // namespace mxcheck_kernels::sm90
