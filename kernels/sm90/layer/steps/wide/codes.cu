// Codes with scales of blocks of 1 x 128 to codes along tokens: what dsv3 makes of the X that it keeps. A tile's rows
// have one scale each.

#include "kernels/sm90/layer/steps/wide/codes.cuh"
#include "kernels/sm90/layer/steps/wide/wide.h"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// The amax of this thread's column, of all parts; +0 where it has none. Passes a barrier.
__device__ __forceinline__ std::uint32_t amax_of_column(const float (&mine)[kEach], const WideLane& at,
                                                        WideShared& shared) {
  auto* const all = reinterpret_cast<float*>(shared.codes);
  auto* const to = reinterpret_cast<float4*>(all + at.part * kWideCols + at.column);
  to[0] = make_float4(mine[0], mine[1], mine[2], mine[3]);
  to[1] = make_float4(mine[4], mine[5], mine[6], mine[7]);
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kWideCols) return 0;
  std::uint32_t amax = 0;
#pragma unroll
  for (int p = 0; p < kWideParts; ++p) amax = max(amax, __float_as_uint(all[p * kWideCols + column]));
  return amax;
}

template <bool kDivides, class Coder>
__device__ __forceinline__ void encode_floats(const Coder& coder, const Halves& x, const WideLane& at,
                                              WideShared& shared) {
#pragma unroll
  for (int k = 0; k < kEach / 2; ++k) {
    float low[kLaneRows];
    float high[kLaneRows];
    const auto* const of_rows = reinterpret_cast<const float4*>(shared.rows + at.row);
    const float4 s[2] = {of_rows[0], of_rows[1]};
    const float scales[kLaneRows] = {s[0].x, s[0].y, s[0].z, s[0].w, s[1].x, s[1].y, s[1].z, s[1].w};
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      const float2 two = ptx::cvt_f32_f16x2(x[r][k]);
      low[r] = __fmul_rn(two.x, scales[r]);
      high[r] = __fmul_rn(two.y, scales[r]);
    }
    const int column = at.column + 2 * k;
    put_column<kDivides>(coder, low, shared_scale<Coder>(shared, column), column, at.part, shared);
    put_column<kDivides>(coder, high, shared_scale<Coder>(shared, column + 1), column + 1, at.part, shared);
  }
}

// 4: 64 registers a thread.
template <Element kSource, class Coder>
__global__ void __launch_bounds__(kWideThreads, 4)
    transpose_wide_codes(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder) {
  constexpr bool kHalves = kSource == Element::e4m3 && Coder::kElement == Element::e4m3 && !Coder::kFp32;
  __shared__ WideShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x, kTileRows, tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.y} * kWideCols;
  const WideLane at = wide_lane(job, tile, col);
  WideScale scale = load_scale(job, at, blockIdx.y);
  Halves x;
  load_halves<kSource>(job, at, x);
  float amax[kEach];
  bool exact = false;
  if constexpr (kHalves) exact = share_scale(scale, x);
  if (exact) {
    amax_in_halves(x, scale.value, amax);
  } else {
    amax_in_floats(x, scale.value, amax);
  }
  shared.rows[at.row + threadIdx.x % kLaneRows] = scale.value;
  const bool divides = share_scales(job, coder, tile, col, amax_of_column(amax, at, shared), shared);
  if (kHalves && exact && columns_are_halves(scale.value, at, shared)) {
    encode_halves(x, scale.value, at, shared);
  } else if (divides) {
    encode_floats<true>(coder, x, at, shared);
  } else {
    encode_floats<false>(coder, x, at, shared);
  }
  __syncthreads();
  store_wide(job, tile, col, shared);
}

}  // namespace

cudaError_t launch_wide_codes(const TransposeJob& job, const dim3& grid, cudaStream_t stream) {
  return with_coder(job.out.coding, [&](auto coder) {
    using C = decltype(coder);
    auto* const kernel =
        job.element == Element::e4m3 ? transpose_wide_codes<Element::e4m3, C> : transpose_wide_codes<Element::e5m2, C>;
    kernel<<<grid, kWideThreads, 0, stream>>>(job, coder);
    return cudaGetLastError();
  });
}

}  // namespace mxcheck_kernels::sm90
