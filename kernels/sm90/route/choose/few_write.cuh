#pragma once
// The chosen experts of a row of few.cuh put in their exact order, and written with their weights.

#include "kernels/sm90/route/choose/few_list.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct ChooseFew : FewList<kType, kChoice, kList> {
  using Base = FewList<kType, kChoice, kList>;
  using Base::job, Base::row, Base::lane, Base::low, Base::softmax, Base::rest, Base::index_in, Base::logit_of;
  using Base::kHalf, Base::kCut, Base::kSettled, Base::kPer, Base::kScore, Base::kScoresLater;
  using typename Base::Key;

  // Settles what keys leave open. Ranks from top_k on are wanted too: one may turn out to be better than top_k - 1.
  // terms: logits, in whose place scores are left where experts are chosen by logits and have other scores.
  __device__ __forceinline__ void settle(const Key (&ranks)[kPer], std::int64_t token, std::int32_t (&experts)[kPer],
                                         float (&terms)[kPer]) const {
    const Router& r = job.router;
    const std::uint32_t index = kHalf ? 0xFFFFU : low;
    float values[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) values[i] = choice_of(kScore, terms[i], softmax);
    const bool changed = put_in_order<kScoresLater, kPer>(experts, values, lane);

    Key last = 0;  // of the chosen
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const bool kept = lane * kPer + i < r.top_k;
      last = kept ? ranks[i] : last;
      least = kept ? values[i] : least;
    }
    Key first = rest;  // of all others
#pragma unroll
    for (int bit = 1; bit < kLanes; bit *= 2) {
      last = larger(last, __shfl_xor_sync(kWarp, last, bit));
      first = smaller(first, __shfl_xor_sync(kWarp, first, bit));
    }
    const bool meets = first <= (last | index);  // the others share a cell with the chosen
    bool open = false;
    if (kCut && __ballot_sync(kWarp, meets) != 0) {
      open = !nothing_is_cut<kType>(row, r.experts, low, lane) && meets;
    }
    if (kScoresLater) {
      // Others of the same logit as the last have higher indices, and come after all that are where their logits put
      // them; of the next logit they must have a smaller score. NaN: there is none.
      const Key next = meets ? (last | index) + 1 : first;
      least = fminf(least, __shfl_xor_sync(kWarp, least, 1));
      least = fminf(least, __shfl_xor_sync(kWarp, least, 2));
      open = open || (meets && changed);
      if (!scores_differ(last, next, least)) {
        const float bound = choice_of(kScore, kHalf ? value_of(next) : top_of_cell(next, index), softmax);
        open = open || bound >= least;
      }
    }
    const unsigned all_open = __ballot_sync(kWarp, open);
    if (all_open != 0) choose_slowly<kType, kPer>(r, kScore, softmax, token, all_open, experts);
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (changed || all_open != 0) terms[i] = logit_of(experts[i]);
      if (!kScoresLater) continue;
      terms[i] = all_open == 0 ? values[i] : choice_of(kScore, terms[i], softmax);
    }
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

  // Ranks lane * kPer and on are this lane's. `read` is the row's token, past the last one any other.
  __device__ __forceinline__ void write(const Key (&ranks)[kPer], std::int64_t token, std::int64_t read) const {
    const Router& r = job.router;
    const bool real = token == read;
    std::int32_t experts[kPer];
    float terms[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      experts[i] = static_cast<std::int32_t>(index_in(ranks[i]));
      terms[i] = kHalf ? value_of(ranks[i]) : logit_of(experts[i]);
    }
    if constexpr (kSettled) settle(ranks, read, experts, terms);
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (lane * kPer + i >= r.top_k) terms[i] = float_of(0x7FFFFFFFU);
      largest = fmaxf(largest, terms[i]);
    }
    const std::int64_t slot = token * r.top_k + lane * kPer;
    if (job.experts != nullptr) store(job.experts + slot, experts, real);
    if (job.weights == nullptr) return;
    if constexpr (kScore == Score::logits) {
      largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kWarp, largest, 2));
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if constexpr (kScore == Score::logits) {
        terms[i] = exp_below(terms[i], largest);
      } else if constexpr (kScoresLater) {
        terms[i] = terms[i] == terms[i] ? terms[i] : 0.0F;
      } else {
        terms[i] = score_of(kScore, terms[i], softmax);
      }
    }
    float sum = sum_from(r);
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
#pragma unroll
      for (int i = 0; i < kPer; ++i) sum = __fadd_rn(sum, __shfl_sync(kWarp, terms[i], j, kLanes));
    }
    const float divisor = divisor_of(r, sum);
    float weights[kPer];
#pragma unroll
    for (int i = 0; i < kPer; ++i) weights[i] = weight_of(r, terms[i], divisor);
    store(job.weights + slot, weights, real);
  }

  template <class T>
  __device__ __forceinline__ void store(T* out, const T (&values)[kPer], bool real) const {
    if (!real) return;
    const int here = job.router.top_k - lane * kPer;
    if (job.aligned_out && job.router.top_k == kList) {
      struct alignas(kPer * 4 < 16 ? kPer * 4 : 16) Pack {
        T v[kPer < 4 ? kPer : 4];
      };
      constexpr int kPack = kPer < 4 ? kPer : 4;
#pragma unroll
      for (int p = 0; p < kPer; p += kPack) {
        Pack pack;
#pragma unroll
        for (int i = 0; i < kPack; ++i) pack.v[i] = values[p + i];
        *reinterpret_cast<Pack*>(out + p) = pack;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      if (i < here) out[i] = values[i];
    }
  }
};

}  // namespace mxcheck_kernels::sm90
