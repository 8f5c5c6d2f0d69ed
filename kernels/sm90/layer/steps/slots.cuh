#pragma once
// The sum of a token's rows, in the order of its slots, whose bits depend on nothing else.

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {

template <bool kVector>
inline constexpr int kSlotColumns = kVector ? kEach : 1;

template <bool kWeighted>
__device__ __forceinline__ float added(float weight, float y, float sum) {
  return kWeighted ? __fmaf_rn(weight, y, sum) : __fadd_rn(sum, y);
}

// Adds the rows of slots begin to end - 1, of columns j on. The loads of four slots are on their way together; `load`
// makes one of 16 bytes.
template <bool kVector, bool kWeighted, class Load>
__device__ __forceinline__ void add_slots(const AggregateJob& job, std::int64_t begin, std::int64_t end, std::int64_t j,
                                          float (&sum)[kSlotColumns<kVector>], const Load& load) {
  constexpr int kAhead = 4;
  for (std::int64_t slot = begin; slot < end; slot += kAhead) {
    std::int32_t rows[kAhead];
    float weights[kAhead];
    uint4 words[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      rows[k] = slot + k < end ? __ldg(job.token_rows + slot + k) : -1;
      if (rows[k] < 0) continue;
      if constexpr (kWeighted) weights[k] = __ldg(job.weights + rows[k]);
      const std::uint16_t* const from = job.y + std::int64_t{rows[k]} * job.cols + j;
      if constexpr (kVector) {
        words[k] = load(reinterpret_cast<const uint4*>(from));
      } else {
        words[k].x = *from;
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (rows[k] < 0) continue;
      const float weight = kWeighted ? weights[k] : 1.0F;
      const std::uint32_t w[4] = {words[k].x, words[k].y, words[k].z, words[k].w};
#pragma unroll
      for (int i = 0; i < kSlotColumns<kVector>; ++i) {
        const float y = i % 2 == 0 ? low_half(w[i / 2]) : high_half(w[i / 2]);
        sum[i] = added<kWeighted>(weight, y, sum[i]);
      }
    }
  }
}

}  // namespace mxcheck_kernels::sm90
