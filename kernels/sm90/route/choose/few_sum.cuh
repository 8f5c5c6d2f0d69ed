#pragma once
// What softmax over all experts needs of a row of few.cuh.

#include "kernels/sm90/route/choose/few_row.cuh"
#include "kernels/sm90/route/row/exp_near.cuh"

namespace mxcheck_kernels::sm90 {

template <Logits kType, Choice kChoice, int kList>
struct FewSum : FewRow<kType, kChoice, kList> {
  using Base = FewRow<kType, kChoice, kList>;
  using Base::lane, Base::softmax, Base::load, Base::least_negative;
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
        x = larger2(x, larger2(larger2(raw.words[0], raw.words[1]), larger2(raw.words[2], raw.words[3])));
      }
      y = negated(fmaxf(float_of(x << 16), float_of(x & 0xFFFF0000U)));
    } else {
#pragma unroll 4
      for (int i = 0; i < rounds; ++i) y = fminf(y, least_negative(load(i * kLanes + lane)));
    }
    y = fminf(y, __shfl_xor_sync(kWarp, y, 1));
    return negated(fminf(y, __shfl_xor_sync(kWarp, y, 2)));
  }

  // exp(x - largest) of a group. Where all differ little from the largest, exp_near; it is none of NaN or infinities.
  __device__ __forceinline__ void terms_of(const Raw& raw, const double* roots, float (&e)[kGroup]) const {
#pragma unroll
    for (int t = 0; t < kGroup; ++t) e[t] = __fsub_rn(softmax.largest, raw.value(t));
    float most = e[0];
#pragma unroll
    for (int t = 1; t < kGroup; ++t) asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(e[t]));
    if (most <= kNear) {
#pragma unroll
      for (int t = 0; t < kGroup; ++t) e[t] = exp_near(e[t], roots);
    } else {
#pragma unroll
      for (int t = 0; t < kGroup; ++t) e[t] = exp_below(raw.value(t), softmax.largest);
    }
  }

  // Pairwise sum, where softmax.largest is known. Lane j of four has the groups j, j + 4, ...: a group is three levels
  // of the tree, its neighbours in the other lanes are two, and the levels above are a binary counter's.
  __device__ void sum_row(int rounds, const double* roots) {
    constexpr int kLevels = 8;
    static_assert(kMostExperts / kGroup / kLanes < 1 << kLevels);
    float waiting[kLevels] = {};
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
      float e[kGroup];
      terms_of(load(i * kLanes + lane), roots, e);
#pragma unroll
      for (int step = 1; step < kGroup; step *= 2) {
#pragma unroll
        for (int t = 0; t < kGroup; t += 2 * step) e[t] = __fadd_rn(e[t], e[t + step]);
      }
      float sum = e[0];
      sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 1));
      sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 2));
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {  // the carry ends at the first 0 of i
        if ((i >> level & 1) == 0) {
          waiting[level] = sum;
          break;
        }
        sum = __fadd_rn(waiting[level], sum);
      }
    }
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((rounds >> level & 1) != 0) softmax.total = __fadd_rn(waiting[level], softmax.total);
    }
  }
};

}  // namespace mxcheck_kernels::sm90
