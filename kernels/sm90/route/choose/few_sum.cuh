#pragma once
// The largest logit and the sum that softmax over all experts needs, of a row of few.cuh.

#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/route/choose/few_row.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct FewSum : FewRow<kType, kChoice, kList> {
  using Base = FewRow<kType, kChoice, kList>;
  using Base::job, Base::lane, Base::roots, Base::softmax, Base::load, Base::least_negative;
  using typename Base::Raw;

  static constexpr bool kBf16 = kType == Logits::bf16;

  // NaN only of NaN alone; no -0, of which +0 subtracted is -0, which exp_near does not take.
  __device__ __forceinline__ float largest_of_row(int rounds) const {
    float y = float_of(0x7FFFFFFFU);
    if constexpr (kBf16) {
      std::uint32_t x = ~0U;
#pragma unroll 4
      for (int i = 0; i < rounds; ++i) {
        const Raw raw = load(i * kLanes + lane);
        x = ptx::max_bf16x2(x, ptx::max_bf16x2(ptx::max_bf16x2(raw.words[0], raw.words[1]),
                                               ptx::max_bf16x2(raw.words[2], raw.words[3])));
      }
      y = negated(fmaxf(float_of(x << 16), float_of(x & 0xFFFF0000U)));
    } else {
#pragma unroll 4
      for (int i = 0; i < rounds; ++i) y = fminf(y, least_negative(load(i * kLanes + lane)));
    }
    y = fminf(y, __shfl_xor_sync(kWarp, y, 1));
    return negated(fminf(y, __shfl_xor_sync(kWarp, y, 2)));
  }

  // The sum of round i: the terms of a group are three levels of the tree, its neighbours in the other lanes are two.
  __device__ __forceinline__ float sum_of_round(int i) const {
    const Raw raw = load(i * kLanes + lane);
    float x[kGroup];
#pragma unroll
    for (int t = 0; t < kGroup; ++t) x[t] = raw.value(t);
    float e[kGroup];
    terms_of(x, softmax.largest, roots, e);
#pragma unroll
    for (int step = 1; step < kGroup; step *= 2) {
#pragma unroll
      for (int t = 0; t < kGroup; t += 2 * step) e[t] = __fadd_rn(e[t], e[t + step]);
    }
    float sum = e[0];
    sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 1));
    return __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 2));
  }

  // Pairwise sum, where softmax.largest is known. Lane j of four has the groups j, j + 4, ... in rounds, of which two
  // are a level, and the levels above are a binary counter's. What is missing past the end is +0 and adds nothing.
  __device__ __forceinline__ void sum_row(int rounds) {
    constexpr int kLevels = 7;
    static_assert(kMostExperts / kGroup / kLanes < 2 << kLevels);
    const int pairs = (rounds + 1) / 2;
    float waiting[kLevels] = {};
#pragma unroll 1
    for (int i = 0; i < pairs; ++i) {
      float sum = sum_of_round(2 * i);
      if (2 * i + 1 < rounds) sum = __fadd_rn(sum, sum_of_round(2 * i + 1));
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {  // the carry ends at the first 0 of i
        const bool pair = (i >> level & 1) != 0;
        const float both = __fadd_rn(waiting[level], sum);
        waiting[level] = pair ? waiting[level] : sum;
        if (!pair) break;
        sum = both;
      }
    }
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((pairs >> level & 1) != 0) softmax.total = __fadd_rn(waiting[level], softmax.total);
    }
  }
};

}  // namespace mxcheck_kernels::sm90
