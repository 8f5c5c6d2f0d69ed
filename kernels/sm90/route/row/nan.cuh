#pragma once
// Whether a group of logits holds a NaN.

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
      asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(all) : "r"(raw.words[w]));
    } else {
      asm("{.reg .f32 a, b; mov.b32 a, %0; mov.b32 b, %1; max.NaN.f32 a, a, b; mov.b32 %0, a;}"
          : "+r"(all)
          : "r"(raw.words[w]));
    }
  }
  if constexpr (kType == Logits::fp32) return is_nan(float_of(all));
  return is_nan(float_of(all << 16)) || is_nan(float_of(all & 0xFFFF0000U));
}

}  // namespace mxcheck_kernels::sm90
