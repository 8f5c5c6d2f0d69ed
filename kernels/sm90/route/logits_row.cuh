#pragma once
// A row of logits by groups of 8 neighbours, 16 bytes of BF16 or 32 of FP32, and whether a group holds a NaN.

#include <cstdint>

#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/route/topk_keys.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kGroup = 8;
inline constexpr unsigned kWarp = 0xFFFFFFFFU;

__device__ __forceinline__ const void* row_of(const Router& r, std::int64_t token) {
  const std::int64_t bytes = token * r.stride * (r.type == Logits::bf16 ? 2 : 4);
  return static_cast<const char*>(r.logits) + bytes;
}

template <Logits kType>
__device__ __forceinline__ std::uint32_t bits_at(const void* row, int e) {
  if constexpr (kType == Logits::bf16) {
    return __ldg(static_cast<const std::uint16_t*>(row) + e);
  } else {
    return __ldg(static_cast<const std::uint32_t*>(row) + e);
  }
}
template <Logits kType>
__device__ __forceinline__ float logit_at(const void* row, int e) {
  return float_of(bits_at<kType>(row, e) << (kType == Logits::bf16 ? 16 : 0));
}

template <Logits kType>
struct RawGroup {
  static constexpr int kWords = kType == Logits::bf16 ? 4 : 8;
  std::uint32_t words[kWords];

  __device__ __forceinline__ float value(int t) const {
    if constexpr (kType == Logits::fp32) return float_of(words[t]);
    return float_of(t % 2 == 0 ? words[t / 2] << 16 : words[t / 2] & 0xFFFF0000U);
  }
};

// Group g of a row; NaN past the last expert, which with its index comes after every expert. aligned: rows start at
// multiples of 16 bytes, and experts are whole groups.
template <Logits kType>
__device__ __forceinline__ RawGroup<kType> load_inside(const void* row, int g) {
  RawGroup<kType> raw;
  constexpr int kQuads = RawGroup<kType>::kWords / 4;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const uint4 x = __ldg(static_cast<const uint4*>(row) + (g * kQuads + q));
    raw.words[q * 4] = x.x, raw.words[q * 4 + 1] = x.y, raw.words[q * 4 + 2] = x.z, raw.words[q * 4 + 3] = x.w;
  }
  return raw;
}
template <Logits kType>
__device__ __forceinline__ RawGroup<kType> load_aligned(const void* row, int g, int groups) {
  if (g < groups) return load_inside<kType>(row, g);
  RawGroup<kType> raw;
#pragma unroll
  for (std::uint32_t& word : raw.words) word = ~0U;
  return raw;
}
template <Logits kType>
__device__ __forceinline__ RawGroup<kType> load_elements(const void* row, int g, int experts) {
  RawGroup<kType> raw;
  std::uint32_t x[kGroup];
#pragma unroll
  for (int t = 0; t < kGroup; ++t) {
    const int e = g * kGroup + t;
    x[t] = e < experts ? bits_at<kType>(row, e) : ~0U;
  }
#pragma unroll
  for (int w = 0; w < RawGroup<kType>::kWords; ++w) {
    raw.words[w] = kType == Logits::bf16 ? __byte_perm(x[w * 2 % kGroup], x[(w * 2 + 1) % kGroup], 0x5410) : x[w];
  }
  return raw;
}
template <Logits kType>
__device__ __forceinline__ RawGroup<kType> load_group(const void* row, int g, int experts, bool aligned) {
  return aligned ? load_aligned<kType>(row, g, experts / kGroup) : load_elements<kType>(row, g, experts);
}

// Two BF16 numbers in a word, in topk_keys.cuh's encoding: negated, and folded.
__device__ __forceinline__ std::uint32_t negated2(std::uint32_t x) {
  return ptx::fma_rn_bf16x2(x, 0xBF80BF80U, 0);  // x * -1 + 0
}
__device__ __forceinline__ std::uint32_t folded2(std::uint32_t y) {
  const std::uint32_t signs = ptx::prmt_b32<0xBB99>(y);  // both bytes of a half: its sign, eight times
  return y ^ (signs | 0x80008000U);
}

// Two FP32 numbers to BF16, nearest, ties to even.
__device__ __forceinline__ std::uint32_t rounded2(float low, float high) { return ptx::cvt_rn_bf16x2_f32(low, high); }

__device__ __forceinline__ bool is_nan(float x) { return x != x; }

// True if there is any: the largest word that is NaN if one is.
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
