#pragma once
// Whether a group of logits holds a NaN.

#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/route/row/groups.cuh"

namespace mxcheck_kernels::sm90 {

__device__ __forceinline__ bool is_nan(float x) { return x != x; }

// Whether there is any: the largest word that is NaN if one is.
template <Logits kType>
__device__ __forceinline__ bool holds_nan(const RawGroup<kType>& raw) {
  std::uint32_t all = raw.words[0];
#pragma unroll
  for (int w = 1; w < RawGroup<kType>::kWords; ++w) {
    if constexpr (kType == Logits::bf16) {
      all = ptx::max_nan_bf16x2(all, raw.words[w]);
    } else {
      all = ptx::max_nan_f32(all, raw.words[w]);
    }
  }
  if constexpr (kType == Logits::fp32) return is_nan(float_of(all));
  return is_nan(float_of(all << 16)) || is_nan(float_of(all & 0xFFFF0000U));
}

}  // namespace mxcheck_kernels::sm90
