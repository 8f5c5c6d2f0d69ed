#pragma once
// The largest logit of a row and the pairwise sum of its exponentials, by four lanes.
//
// Lane j of four has the groups of 8 numbered j, j + 4, ...: a round is a group of each. A group is three levels of the
// tree, its neighbours in the other lanes are two, four rounds are two more, and the levels above are a binary
// counter's. What is missing past the end is +0 and adds nothing.

#include "kernels/sm90/route/choose/choose.h"
#include "kernels/sm90/route/choose/settle.cuh"
#include "kernels/sm90/route/row/groups.cuh"
#include "kernels/sm90/route/row/weights.cuh"

namespace mxcheck_kernels::sm90 {

// kInside: every lane has a whole, aligned group in every round. kFinite: the largest logit is a number, so that its
// difference from itself is 0 without being told.
template <Logits kType, bool kInside, bool kFinite>
struct SoftmaxRow {
  static constexpr int kRounds = 4;  // that are added before they are counted
  static constexpr int kLevels = 6;
  static_assert(kMostExperts / kGroup / kLanes <= kRounds << kLevels);

  const ChooseJob& job;
  const void* row;
  const double* roots;  // of exp_by()
  int lane;
  int rounds;

  __device__ __forceinline__ RawGroup<kType> load(int round) const {
    const int g = round * kLanes + lane;
    if constexpr (kInside) return load_inside<kType>(row, g);
    return load_group<kType>(row, g, job.router.experts, job.aligned);
  }

  __device__ __forceinline__ float largest() const {
    float y = float_of(0x7FFFFFFFU);
#pragma unroll 4
    for (int i = 0; i < rounds; ++i) {
      const RawGroup<kType> raw = load(i);
      float x = raw.value(0);
#pragma unroll
      for (int t = 1; t < kGroup; ++t) x = fmaxf(x, raw.value(t));
      y = fminf(y, negated(x));
    }
    y = fminf(y, __shfl_xor_sync(kWarp, y, 1));
    y = fminf(y, __shfl_xor_sync(kWarp, y, 2));
    return -y;  // NaN only of a row of NaN: every term is +0 then
  }

  __device__ __forceinline__ float sum_of_round(int round, float largest) const {
    const RawGroup<kType> raw = load(round);
    float e[kGroup];
#pragma unroll
    for (int t = 0; t < kGroup; ++t) {
      const float x = raw.value(t);
      e[t] = exp_by(roots, !kFinite && x == largest ? 0.0F : __fsub_rn(x, largest));
    }
#pragma unroll
    for (int step = 1; step < kGroup; step *= 2) {
#pragma unroll
      for (int t = 0; t < kGroup; t += 2 * step) e[t] = __fadd_rn(e[t], e[t + step]);
    }
    float sum = e[0];
    sum = __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 1));
    return __fadd_rn(sum, __shfl_xor_sync(kWarp, sum, 2));
  }

  __device__ __forceinline__ float total(float largest) const {
    float waiting[kLevels] = {};
    const int blocks = (rounds + kRounds - 1) / kRounds;
    for (int block = 0; block < blocks; ++block) {
      float part[kRounds] = {};
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        if (block * kRounds + i < rounds) part[i] = sum_of_round(block * kRounds + i, largest);
      }
      float sum = __fadd_rn(__fadd_rn(part[0], part[1]), __fadd_rn(part[2], part[3]));
      bool carried = true;
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {
        const bool pair = (block >> level & 1) != 0;
        if (carried && pair) sum = __fadd_rn(waiting[level], sum);
        if (carried && !pair) waiting[level] = sum;
        carried = carried && pair;
      }
    }
    float total = 0;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((blocks >> level & 1) != 0) total = __fadd_rn(waiting[level], total);
    }
    return total;
  }
};

// All lanes of the warp call together.
template <Logits kType>
__device__ __forceinline__ Softmax softmax_of_four(const ChooseJob& job, const void* row, const double* roots,
                                                   int lane) {
  const int groups = (job.router.experts + kGroup - 1) / kGroup;
  const int rounds = (groups + kLanes - 1) / kLanes;
  Softmax softmax;
  if (job.aligned && groups % kLanes == 0) {
    const SoftmaxRow<kType, true, true> inside{job, row, roots, lane, rounds};
    softmax.largest = inside.largest();
    if (__all_sync(kWarp, fabsf(softmax.largest) < INFINITY)) {
      softmax.total = inside.total(softmax.largest);
      return softmax;
    }
  } else {
    softmax.largest = SoftmaxRow<kType, false, false>{job, row, roots, lane, rounds}.largest();
  }
  softmax.total = SoftmaxRow<kType, false, false>{job, row, roots, lane, rounds}.total(softmax.largest);
  return softmax;
}

}  // namespace mxcheck_kernels::sm90
