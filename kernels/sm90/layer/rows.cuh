#pragma once
// What the kernels of rows.h share: a warp takes 256 columns of a row at a time, a lane 8 of them.

#include <algorithm>
#include <cstdint>

#include "kernels/sm90/layer/rows.h"
#include "kernels/sm90/layer/values.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kChunk = 32 * kEach;
inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / 32;

struct GateUps {
  float g[kEach];
  float u[kEach];
};

__device__ __forceinline__ void unpack(const uint4& words, float (&v)[kEach]) {
  const std::uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) v[2 * i] = low_half(w[i]), v[2 * i + 1] = high_half(w[i]);
}
__device__ __forceinline__ uint4 packed(const float (&v)[kEach]) {
  return make_uint4(two_bf16(v[0], v[1]), two_bf16(v[2], v[3]), two_bf16(v[4], v[5]), two_bf16(v[6], v[7]));
}

__device__ __forceinline__ float decoded(const HInput& h, std::int64_t row, std::int64_t col) {
  if (!h.coded) {
    const auto word = static_cast<const std::uint16_t*>(h.data)[row * h.stride + col];
    return __uint_as_float(static_cast<std::uint32_t>(word) << 16);
  }
  const std::uint32_t code = static_cast<const std::uint8_t*>(h.data)[row * h.stride + col];
  const float scale = value_of(h.scales[row * ((h.stride + 31) / 32) + col / 32]);
  const float2 v = h.element == Element::e4m3 ? decode2<Element::e4m3>(code) : decode2<Element::e5m2>(code);
  return __fmul_rn(v.x, scale);
}

// Gates and up values of columns j .. j + 7 of a row; those past n are zeros.
template <bool kVector>
__device__ __forceinline__ void load_gate_ups(const HInput& h, std::int64_t row, std::int64_t j, std::int64_t n,
                                              GateUps& v) {
  if constexpr (kVector) {
    if (j >= n) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) v.g[i] = 0, v.u[i] = 0;
      return;
    }
    const auto* const at = static_cast<const std::uint16_t*>(h.data) + row * h.stride;
    if (h.interleaved) {
      float first[kEach];
      float second[kEach];
      unpack(__ldcs(reinterpret_cast<const uint4*>(at + 2 * j)), first);
      unpack(__ldcs(reinterpret_cast<const uint4*>(at + 2 * j) + 1), second);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        v.g[i] = first[2 * i], v.u[i] = first[2 * i + 1];
        v.g[i + 4] = second[2 * i], v.u[i + 4] = second[2 * i + 1];
      }
    } else {
      unpack(__ldcs(reinterpret_cast<const uint4*>(at + j)), v.g);
      unpack(__ldcs(reinterpret_cast<const uint4*>(at + n + j)), v.u);
    }
  } else {
    for (int i = 0; i < kEach; ++i) {
      const bool inside = j + i < n;
      v.g[i] = inside ? decoded(h, row, h.interleaved ? 2 * (j + i) : j + i) : 0.0F;
      v.u[i] = inside ? decoded(h, row, h.interleaved ? 2 * (j + i) + 1 : n + j + i) : 0.0F;
    }
  }
}

// P of columns j .. j + 7, zeros past n.
template <bool kVector>
__device__ __forceinline__ void load_p(const RowsJob& job, std::int64_t row, std::int64_t j, float (&p)[kEach]) {
  const float* const at = job.p + row * job.n + j;
  if constexpr (kVector) {
    if (j < job.n) {
      const float4 low = __ldcs(reinterpret_cast<const float4*>(at));
      const float4 high = __ldcs(reinterpret_cast<const float4*>(at) + 1);
      p[0] = low.x, p[1] = low.y, p[2] = low.z, p[3] = low.w;
      p[4] = high.x, p[5] = high.y, p[6] = high.z, p[7] = high.w;
      return;
    }
  }
  for (int i = 0; i < kEach; ++i) p[i] = j + i < job.n ? at[i] : 0.0F;
}

// v to BF16, and again as FP32.
__device__ __forceinline__ uint4 round_to_bf16(float (&v)[kEach]) {
  const uint4 words = packed(v);
  unpack(words, v);
  return words;
}

template <bool kVector>
__device__ __forceinline__ void store_eight(std::uint16_t* to, const uint4& words, std::int64_t count) {
  if constexpr (kVector) {
    *reinterpret_cast<uint4*>(to) = words;
  } else {
    const std::uint32_t w[4] = {words.x, words.y, words.z, words.w};
    for (int i = 0; i < kEach; ++i) {
      if (i < count) to[i] = static_cast<std::uint16_t>(w[i / 2] >> 16 * (i % 2));
    }
  }
}
template <bool kVector>
__device__ __forceinline__ void store_eight(std::uint8_t* to, uint2 codes, std::int64_t count) {
  if constexpr (kVector) {
    *reinterpret_cast<uint2*>(to) = codes;
  } else {
    const std::uint32_t w[2] = {codes.x, codes.y};
    for (int i = 0; i < kEach; ++i) {
      if (i < count) to[i] = static_cast<std::uint8_t>(w[i / 4] >> 8 * (i % 4));
    }
  }
}

__device__ __forceinline__ std::uint32_t amax_of(const float (&v)[kEach]) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) amax = max(amax, magnitude(v[i]));
  return amax;
}

// A lane's 8 columns from `col` of a row of `cols`: codes, and the scale by the first lane of its block. Columns of a
// warp are neighbours, and start a block; all lanes call. Lanes past the end hold zeros.
template <bool kVector>
__device__ __forceinline__ void encode_eight(const RowCodes& out, const float (&v)[kEach], std::int64_t row,
                                             std::int64_t col, std::int64_t cols, std::int64_t count, int lane) {
  const DeviceCoding& c = out.coding;
  const int lanes = c.block / kEach;
  const BlockScale scale = block_scale(c, largest_of(amax_of(v), lanes));
  if (count <= 0) return;
  if (lane % lanes == 0) {
    store_scale(c, out.scales, row * ((cols + c.block - 1) / c.block) + col / c.block, scale.stored);
  }
  const uint2 codes = {codes_of(c, v[0], v[1], v[2], v[3], scale.by), codes_of(c, v[4], v[5], v[6], v[7], scale.by)};
  store_eight<kVector>(out.codes + row * cols + col, codes, count);
}

inline unsigned row_grid(std::int64_t units) {
  constexpr std::int64_t kMost = 132 * 6;  // what 132 processors hold with a table of sigmoids each
  return static_cast<unsigned>(std::clamp<std::int64_t>((units + kRowWarps - 1) / kRowWarps, 1, kMost));
}

}  // namespace mxcheck_kernels::sm90
