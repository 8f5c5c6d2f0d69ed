#pragma once
// The codes of a lane, as halves, which every E4M3 and E5M2 value is, and the scales of their rows.
//
// E4M3 codes with E8M0 scales, to E4M3 codes with E8M0 scales, stay halves. With 2^m the largest scale of a warp's 16
// rows, code * scale / 2^m is a half as long as no row's scale is below 2^(m - 14): a code is an integer times 2^-9, of
// four bits, and below 2^9, so that the number is one times 2^-23. A code of the output is that of the half times
// 2^m / s, s the column's scale: exact, or so small that the code is a zero. A warp for which that is not so, as with a
// scale of NaN, takes FP32; so it does where 2^m / s is above 2^15. That is two numbers an instruction instead of one,
// and no conversion to FP32.

#include <cstdint>

#include "kernels/sm90/layer/steps/wide/tile.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

using Halves = std::uint32_t[kLaneRows][kEach / 2];  // of eight rows eight columns

// The scale of row lane % 8; of an E8M0 scale the byte too.
struct WideScale {
  float value;
  std::uint32_t byte;  // 255 without
};

__device__ __forceinline__ WideScale load_scale(const TransposeJob& job, const WideLane& at, unsigned block) {
  const std::int64_t place = at.source_row * job.scale_blocks + block;
  if (!job.e8m0) return {__ldg(static_cast<const float*>(job.scales) + place), 255};
  const std::uint32_t byte = __ldg(static_cast<const std::uint8_t*>(job.scales) + place);
  return {value_of(byte), byte};
}

// `codes` has two.
template <Element kSource>
__device__ __forceinline__ std::uint32_t halves_of(std::uint32_t codes) {
  if constexpr (kSource == Element::e4m3) {
    return ptx::cvt_rn_f16x2_e4m3x2(static_cast<std::uint16_t>(codes));
  } else {
    return ptx::cvt_rn_f16x2_e5m2x2(static_cast<std::uint16_t>(codes));
  }
}

template <Element kSource>
__device__ __forceinline__ void load_halves(const TransposeJob& job, const WideLane& at, Halves& x) {
  const auto* const codes = static_cast<const std::uint8_t*>(job.x) + at.source;
  const auto stride = static_cast<std::int32_t>(job.stride);  // a product of 64 bits by one instruction
  uint2 eight[kLaneRows];
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    eight[r] = __ldg(reinterpret_cast<const uint2*>(codes + std::int64_t{of_row(at.source_row, r)} * stride));
  }
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    x[r][0] = halves_of<kSource>(eight[r].x & 0xFFFF), x[r][1] = halves_of<kSource>(eight[r].x >> 16);
    x[r][2] = halves_of<kSource>(eight[r].y & 0xFFFF), x[r][3] = halves_of<kSource>(eight[r].y >> 16);
  }
}

__device__ __forceinline__ void amax_in_floats(const Halves& x, float scale, float (&amax)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) amax[i] = 0;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const float s = of_row(scale, r);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) {
      const float2 two = ptx::cvt_f32_f16x2(x[r][k]);
      amax[2 * k] = ptx::max_nan_f32(amax[2 * k], fabsf(__fmul_rn(two.x, s)));
      amax[2 * k + 1] = ptx::max_nan_f32(amax[2 * k + 1], fabsf(__fmul_rn(two.y, s)));
    }
  }
}

// If a warp's numbers are halves times its largest scale, makes them so, and that the scale of all rows.
__device__ __forceinline__ bool share_scale(WideScale& scale, Halves& x) {
  constexpr std::uint32_t kMost = 246;  // up to there 480 * 2^m is finite; from 1 on m needs no subnormal
  const std::uint32_t most = __reduce_max_sync(kAllLanes, scale.byte);
  const std::uint32_t least = __reduce_min_sync(kAllLanes, scale.byte);
  if (most < 1 || most > kMost || most - least > 14) return false;
  const std::uint32_t mine = ((15 - (most - scale.byte)) << 10) * 0x10001;  // 2^(byte - most), twice
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const std::uint32_t factor = of_row(mine, r);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) x[r][k] = ptx::mul_rn_f16x2(x[r][k], factor);
  }
  scale.value = value_of(most);
  return true;
}

__device__ __forceinline__ void amax_in_halves(const Halves& x, float scale, float (&amax)[kEach]) {
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    std::uint32_t two = x[0][k];
#pragma unroll
    for (int r = 1; r < kLaneRows; ++r) {
      two = ptx::max_nan_xorsign_abs_f16x2(two, x[r][k]);
    }
    const float2 of = ptx::cvt_f32_f16x2(two & 0x7FFF7FFF);
    amax[2 * k] = __fmul_rn(of.x, scale);
    amax[2 * k + 1] = __fmul_rn(of.y, scale);
  }
}

// Whether 2^m / s is 2^15 or less, or NaN, in all of a warp's columns.
__device__ __forceinline__ bool columns_are_halves(float scale, const WideLane& at, const WideShared& shared) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) largest = fmaxf(largest, shared.factors[at.column + i]);
  return __all_sync(kAllLanes, __fmul_rn(largest, scale) <= 0x1p15F ? 1 : 0) != 0;
}

__device__ __forceinline__ void encode_halves(const Halves& x, float scale, const WideLane& at, WideShared& shared) {
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    const int column = at.column + 2 * k;
    const float2 s = *reinterpret_cast<const float2*>(shared.factors + column);
    const std::uint32_t factor = ptx::cvt_rn_f16x2_f32(__fmul_rn(s.x, scale), __fmul_rn(s.y, scale));
    std::uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      four[i] = __byte_perm(ptx::cvt_rn_satfinite_e4m3x2_f16x2(ptx::mul_rn_f16x2(x[2 * i][k], factor)),
                            ptx::cvt_rn_satfinite_e4m3x2_f16x2(ptx::mul_rn_f16x2(x[2 * i + 1][k], factor)), 0x5140);
    }
    put_eight(shared.codes, column, at.part,
              make_uint2(__byte_perm(four[0], four[1], 0x5410), __byte_perm(four[2], four[3], 0x5410)));
    put_eight(shared.codes, column + 1, at.part,
              make_uint2(__byte_perm(four[0], four[1], 0x7632), __byte_perm(four[2], four[3], 0x7632)));
  }
}

}  // namespace mxcheck_kernels::sm90
