#pragma once
// H in E5M6 as a lane of the kernels of rows.h reads it: eight codes in three words
// (kernels/sm90/layer/steps/e5m6.cuh), E8M0 scales of a row's blocks of 128. What comes of it are BF16 words: a code
// times its scale is exact in FP32, 2^-147 and up, or Inf, and is rounded once to BF16, which holds every value that a
// BF16 was rounded to.

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/sm90/layer/steps/e5m6.cuh"
#include "kernels/sm90/layer/steps/rows.h"
#include "kernels/sm90/layer/steps/values.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

// Codes of 8 columns of n: in halves the gates and the up values, interleaved four pairs and the next four. Scales stay
// bytes until they are used, so that no load is waited for in front of the others.
struct PackedH {
  std::uint32_t first[3] = {};
  std::uint32_t second[3] = {};
  std::uint32_t first_scale = 0;
  std::uint32_t second_scale = 0;
};

// Where a lane's 8 columns from j on lie, with n a multiple of 128.
struct PackedPlace {
  const std::uint32_t* words;
  const std::uint8_t* scale;
};
template <bool kPairs>
__device__ __forceinline__ PackedPlace packed_place(const HInput& h, std::int64_t row, std::int64_t j) {
  const std::int64_t at = row * h.stride + (kPairs ? 2 * j : j);
  return {static_cast<const std::uint32_t*>(h.data) + at / kEach * 3, h.scales + at / 128};
}

// Interleaved, six words are 24 bytes from a multiple of eight on.
template <bool kPairs>
__device__ __forceinline__ PackedH load_packed(const PackedPlace& at, std::int64_t n) {
  PackedH v;
  v.first_scale = v.second_scale = __ldg(at.scale);
  if constexpr (kPairs) {
    const auto* const two = reinterpret_cast<const uint2*>(at.words);
    const uint2 a = __ldg(two);
    const uint2 b = __ldg(two + 1);
    const uint2 c = __ldg(two + 2);
    v.first[0] = a.x, v.first[1] = a.y, v.first[2] = b.x, v.second[0] = b.y, v.second[1] = c.x, v.second[2] = c.y;
  } else {
    const std::uint32_t* const ups = at.words + n / kEach * 3;
    v.second_scale = __ldg(at.scale + n / 128);
#pragma unroll
    for (int i = 0; i < 3; ++i) v.first[i] = __ldg(at.words + i), v.second[i] = __ldg(ups + i);
  }
  return v;
}

// From this byte on a code times its scale is a BF16 or beyond FP32: it has seven bits, at multiples of 2^(byte - 147),
// and BF16 has eight and multiples of 2^-133.
inline constexpr std::uint32_t kLeastExactByte = 14;

// Eight values, to be rounded to BF16 unless the scale says that they are.
__device__ __forceinline__ void decode_packed(const std::uint32_t (&words)[3], float scale, float (&v)[kEach]) {
  std::uint32_t halves[4];
  unpack_e5m6(words, halves);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __half22float2(__halves2half2(__ushort_as_half(static_cast<std::uint16_t>(halves[i])),
                                                     __ushort_as_half(static_cast<std::uint16_t>(halves[i] >> 16))));
    v[2 * i] = __fmul_rn(two.x, scale), v[2 * i + 1] = __fmul_rn(two.y, scale);
  }
}
__device__ __forceinline__ void round_to_bf16(float (&v)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; i += 2) {
    const std::uint32_t two = ptx::cvt_rn_bf16x2_f32(v[i], v[i + 1]);
    v[i] = low_half(two), v[i + 1] = high_half(two);
  }
}

}  // namespace mxcheck_kernels::sm90
