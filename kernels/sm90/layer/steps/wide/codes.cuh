#pragma once
// What a lane has of codes, as FP32 numbers or as halves: code * scale, exact either way.
//
// Halves: E4M3 codes with E8M0 scales, to E4M3 codes with E8M0 scales. With 2^m the largest scale of a warp's 16 rows,
// code * scale / 2^m is a half as long as no row's scale is below 2^(m - 14): a code is an integer times 2^-9, of four
// bits, and below 2^9, so that the number is one times 2^-23. A code of the output is that of the half times 2^m / s, s
// the column's scale: exact, or so small that the code is a zero. A warp for which that is not so, as with a scale of
// NaN, takes FP32; so it does where 2^m / s is above 2^15. Two numbers an instruction instead of one, and no conversion
// to FP32, which makes half as many instructions.

#include <cstdint>

#include "kernels/sm90/layer/steps/wide/tile.cuh"

namespace mxcheck_kernels::sm90 {

// Eight columns of eight rows, and the scale of row lane % 8; of an E8M0 scale the byte too.
struct WideCodes {
  uint2 rows[kLaneRows];
  float scale;
  std::uint32_t byte;  // 255 without
};

__device__ __forceinline__ WideCodes load_codes(const TransposeJob& job, const WideLane& at, unsigned block) {
  WideCodes x;
  const auto* const codes = static_cast<const std::uint8_t*>(job.x) + at.source;
  const auto stride = static_cast<std::int32_t>(job.stride);  // a product of 64 bits by one instruction
  const std::int64_t scale = at.source_row * job.scale_blocks + block;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    x.rows[r] = __ldg(reinterpret_cast<const uint2*>(codes + std::int64_t{of_row(at.source_row, r)} * stride));
  }
  x.byte = job.e8m0 ? __ldg(static_cast<const std::uint8_t*>(job.scales) + scale) : 255;
  x.scale = job.e8m0 ? value_of(x.byte) : __ldg(static_cast<const float*>(job.scales) + scale);
  return x;
}

__device__ __forceinline__ std::uint32_t two_codes(const uint2& eight, int k) {
  const std::uint32_t four = k < 2 ? eight.x : eight.y;
  return k % 2 == 0 ? four & 0xFFFF : four >> 16;
}

// The larger magnitude; NaN if either is, which max.f32 alone would drop.
__device__ __forceinline__ float larger_magnitude(float amax, float x) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(amax), "f"(fabsf(x)));
  return y;
}

template <Element kSource>
__device__ __forceinline__ void amax_in_floats(const WideCodes& x, float (&amax)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) amax[i] = 0;
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const float scale = of_row(x.scale, r);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) {
      const float2 two = decode2<kSource>(two_codes(x.rows[r], k));
      amax[2 * k] = larger_magnitude(amax[2 * k], __fmul_rn(two.x, scale));
      amax[2 * k + 1] = larger_magnitude(amax[2 * k + 1], __fmul_rn(two.y, scale));
    }
  }
}

// 2^m of a warp; `factor` is that of row lane % 8 to it, in both halves.
struct HalfRows {
  bool exact;
  std::uint32_t factor;
  float largest;
};

__device__ __forceinline__ HalfRows half_rows(const WideCodes& x) {
  constexpr std::uint32_t kMost = 246;  // below it 480 * 2^m is finite; from 1 on m needs no subnormal
  const std::uint32_t most = __reduce_max_sync(kAllLanes, x.byte);
  const std::uint32_t least = __reduce_min_sync(kAllLanes, x.byte);
  const bool exact = most >= 1 && most <= kMost && most - least <= 14;
  return {exact, ((15 - (most - x.byte)) << 10) * 0x10001, value_of(most)};
}

__device__ __forceinline__ std::uint32_t halves_of(std::uint32_t codes) {
  std::uint32_t two;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(static_cast<std::uint16_t>(codes)));
  return two;
}
__device__ __forceinline__ std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  std::uint32_t two;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(two) : "r"(a), "r"(b));
  return two;
}
__device__ __forceinline__ float2 floats_of(std::uint32_t two) {
  float2 values;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(values.x), "=f"(values.y)
      : "r"(two));
  return values;
}
__device__ __forceinline__ std::uint32_t two_halves(float low, float high) {
  std::uint32_t two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
__device__ __forceinline__ std::uint32_t codes_of(std::uint32_t two) {
  std::uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(codes) : "r"(two));
  return codes;
}

// Magnitudes of halves are ordered as their bits, and every NaN is above all numbers.
__device__ __forceinline__ void amax_in_halves(const WideCodes& x, const HalfRows& halves, float (&amax)[kEach]) {
  std::uint32_t two[kEach / 2] = {};
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    const std::uint32_t factor = of_row(halves.factor, r);
    const uint2 magnitudes = make_uint2(x.rows[r].x & 0x7F7F7F7F, x.rows[r].y & 0x7F7F7F7F);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) {
      two[k] = __vmaxu2(two[k], times(halves_of(two_codes(magnitudes, k)), factor));
    }
  }
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    const float2 of = floats_of(two[k]);
    amax[2 * k] = __fmul_rn(of.x, halves.largest);
    amax[2 * k + 1] = __fmul_rn(of.y, halves.largest);
  }
}

// Whether 2^m / s is 2^15 or less, or NaN, in all of a warp's columns.
__device__ __forceinline__ bool columns_are_halves(const HalfRows& halves, const WideLane& at,
                                                   const WideShared& shared) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) largest = fmaxf(largest, shared.factors[at.column + i]);
  return __all_sync(kAllLanes, __fmul_rn(largest, halves.largest) <= 0x1p15F ? 1 : 0) != 0;
}

__device__ __forceinline__ void encode_in_halves(const WideCodes& x, const HalfRows& halves, const WideLane& at,
                                                 WideShared& shared) {
  std::uint32_t rows[kLaneRows];
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) rows[r] = of_row(halves.factor, r);
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    const int column = at.column + 2 * k;
    const float2 s = *reinterpret_cast<const float2*>(shared.factors + column);
    const std::uint32_t factor = two_halves(__fmul_rn(s.x, halves.largest), __fmul_rn(s.y, halves.largest));
    std::uint32_t c[kLaneRows];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      c[r] = codes_of(times(times(halves_of(two_codes(x.rows[r], k)), rows[r]), factor));
    }
    std::uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = __byte_perm(c[2 * i], c[2 * i + 1], 0x5140);
    put_eight(shared.codes, column, at.part,
              make_uint2(__byte_perm(four[0], four[1], 0x5410), __byte_perm(four[2], four[3], 0x5410)));
    put_eight(shared.codes, column + 1, at.part,
              make_uint2(__byte_perm(four[0], four[1], 0x7632), __byte_perm(four[2], four[3], 0x7632)));
  }
}

}  // namespace mxcheck_kernels::sm90
