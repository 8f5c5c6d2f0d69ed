#pragma once
// The chosen experts of a row of few.cuh written with their weights.

#include "kernels/sm90/route/choose/few_settle.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct ChooseFew : FewSettle<kType, kChoice, kList> {
  using Base = FewSettle<kType, kChoice, kList>;
  using Base::job, Base::lane, Base::softmax, Base::index_in, Base::logit_of, Base::settle;
  using Base::kHalf, Base::kSettled, Base::kPer, Base::kScore;
  using typename Base::Key;

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
      } else {
        terms[i] = terms[i] == terms[i] ? terms[i] : 0.0F;
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
