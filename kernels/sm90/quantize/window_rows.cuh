#pragma once
// Blocks of one row in a window (window.cuh). A block of kBlock columns begins `before` elements behind the first of a
// lane's 8, in one lane of each kBlock / 8: that lane's elements are those of two blocks, of this one from `before` on,
// of the one before it to their left.

#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/quantize/line_scales.cuh"
#include "kernels/sm90/quantize/window.cuh"

namespace mxcheck_kernels::sm90 {

// Codes of 8 elements from their factors as BF16. A product is exact, or so small that its code is a zero.
template <Element kElement>
__device__ __forceinline__ uint2 encode_words(const Eight<__nv_bfloat16>& e, const std::uint32_t (&factors)[4]) {
  Four<__nv_bfloat16> low;
  Four<__nv_bfloat16> high;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    low.w[i] = ptx::mul_rn_bf16x2(e.w[i], factors[i]), high.w[i] = ptx::mul_rn_bf16x2(e.w[i + 2], factors[i + 2]);
  }
  constexpr float4 kOne{1, 1, 1, 1};
  return {encode<kElement>(low.values(), kOne), encode<kElement>(high.values(), kOne)};
}

__device__ __forceinline__ std::uint32_t upper_half(float factor) { return __float_as_uint(factor) >> 16; }

// A larger magnitude in each half, with some sign.
__device__ __forceinline__ std::uint32_t larger_of_both(std::uint32_t a, std::uint32_t b) {
  return ptx::max_nan_xorsign_abs_bf16x2(a, b);
}

// Zeros in place of what is right of the matrix.
__device__ __forceinline__ void cut_window(const Window& w, Bf16Lines& a) {
  const int first = static_cast<int>(threadIdx.x % 32) * 8 - w.before;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto is_inside = [&](int j) { return ((first + j) & (kLineCols - 1)) < w.cols; };
    const std::uint32_t kept = (is_inside(2 * i) ? 0xFFFFU : 0) | (is_inside(2 * i + 1) ? 0xFFFF0000U : 0);
#pragma unroll
    for (int r = 0; r < kLineRows; ++r) a[r].w[i] &= kept;
  }
}

// Stores the scales and the codes of the blocks of a window's rows, which are kApart apart from `first` of the tile on.
template <Element kElement, int kBlock, int kApart>
__device__ __forceinline__ void put_window_rows(const Place& p, const QuantizeJob& job, const Window& w, int first,
                                                const Bf16Lines& a, WindowEdge& edge) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::uint32_t own[4];  // elements of the block that most of the lane's are of
#pragma unroll
  for (int i = 0; i < 4; ++i) own[i] = lane % (kBlock / 8) == 0 ? from_element(w.before, i) : 0xFFFFFFFFU;
  std::uint32_t amax[4];  // of rows 2i and 2i + 1
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    std::uint32_t right[2];
    std::uint32_t left[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const std::uint32_t(&v)[4] = a[2 * i + j].w;
      right[j] =
          larger_of_both(larger_of_both(v[0] & own[0], v[1] & own[1]), larger_of_both(v[2] & own[2], v[3] & own[3]));
      left[j] = larger_of_both(larger_of_both(v[0] & ~own[0], v[1] & ~own[1]),
                               larger_of_both(v[2] & ~own[2], v[3] & ~own[3]));
    }
    const auto both = [](const std::uint32_t(&m)[2]) {
      return larger_of_both(__byte_perm(m[0], m[1], 0x5410), __byte_perm(m[0], m[1], 0x7632)) & 0x7FFF7FFF;
    };
    amax[i] = __vmaxu2(both(right), __shfl_sync(kAll, both(left), lane + 1));
  }
  const uint2 bytes = scales_of_words<__nv_bfloat16, kElement, kBlock>(amax, job.addend);
  store_line_scales<kBlock, kApart>(p, job.row.scales, first, bytes);

  const std::uint32_t two = upper_half(factor_of(bytes.x)) | upper_half(factor_of(bytes.y)) << 16;
  std::uint32_t factor[4];  // of rows 2i and 2i + 1, of the lane's block
  std::uint32_t before[4];  // of the one before it
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int from = kBlock == 32 ? (lane & 28) | i : (lane & 16) | i * 4;
    factor[i] = __shfl_sync(kAll, two, from);
    before[i] = __shfl_sync(kAll, two, from - kBlock / 8);
  }
  store_window(job.row.codes + (p.tile.first_row + first) * p.cols + p.c * kTile, kApart * p.cols, w, edge, [&](int r) {
    const unsigned select = r % 2 == 0 ? 0x1010 : 0x3232;
    const std::uint32_t of_own = __byte_perm(factor[r / 2], 0, select);
    const std::uint32_t of_before = __byte_perm(before[r / 2], 0, select);
    std::uint32_t factors[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) factors[i] = (of_own & own[i]) | (of_before & ~own[i]);
    return encode_words<kElement>(a[r], factors);
  });
}

}  // namespace mxcheck_kernels::sm90
