// Rows of BF16, gathered by an index or not, to codes along tokens.

#include <limits>

#include "kernels/sm90/layer/steps/wide/tile.cuh"
#include "kernels/sm90/layer/steps/wide/wide.h"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// Eight columns of eight rows.
__device__ __forceinline__ void load_words(const TransposeJob& job, const WideLane& at, uint4 (&v)[kLaneRows]) {
  const auto* const x = static_cast<const std::uint16_t*>(job.x) + at.source;
  const auto stride = static_cast<std::int32_t>(job.stride);  // a product of 64 bits by one instruction
#pragma unroll
  for (int r = 0; r < kLaneRows; ++r) {
    v[r] = __ldg(reinterpret_cast<const uint4*>(x + std::int64_t{of_row(at.source_row, r)} * stride));
  }
}

// The amax of this thread's column, of all parts; +0 where it has none. Passes a barrier.
__device__ __forceinline__ std::uint32_t amax_of_column(const uint4 (&v)[kLaneRows], const WideLane& at,
                                                        WideShared& shared) {
  uint4 m = v[0];
#pragma unroll
  for (int r = 1; r < kLaneRows; ++r) {
    m = make_uint4(ptx::max_nan_xorsign_abs_bf16x2(m.x, v[r].x), ptx::max_nan_xorsign_abs_bf16x2(m.y, v[r].y),
                   ptx::max_nan_xorsign_abs_bf16x2(m.z, v[r].z), ptx::max_nan_xorsign_abs_bf16x2(m.w, v[r].w));
  }
  constexpr int kPlaces = kWideCols / kEach;  // of uint4 in a part
  shared.codes[at.part * kPlaces + at.column / kEach] = m;
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= kWideCols) return 0;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(shared.codes) + column / 2;
  std::uint32_t two = 0;
#pragma unroll
  for (int p = 0; p < kWideParts; ++p) two = ptx::max_nan_xorsign_abs_bf16x2(two, words[p * (kWideCols / 2)]);
  two &= 0x7FFF7FFF;
  return column % 2 == 0 ? two << 16 : two & 0xFFFF0000;
}

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int k) {
  return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
}

template <bool kDivides, class Coder>
__device__ __forceinline__ void encode_words(const Coder& coder, const uint4 (&v)[kLaneRows], const WideLane& at,
                                             WideShared& shared) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float low[kLaneRows];
    float high[kLaneRows];
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
      low[r] = low_half(word_of(v[r], k));
      high[r] = high_half(word_of(v[r], k));
    }
    const int column = at.column + 2 * k;
    put_column<kDivides>(coder, low, shared_scale<Coder>(shared, column), column, at.part, shared);
    put_column<kDivides>(coder, high, shared_scale<Coder>(shared, column + 1), column + 1, at.part, shared);
  }
}

// 4: 64 registers a thread, half of them the tile; 128 KB of loads on their way on each processor.
template <class Coder>
__global__ void __launch_bounds__(kWideThreads, 4)
    transpose_wide(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder) {
  __shared__ WideShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x, kTileRows, tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.y} * kWideCols;
  const WideLane at = wide_lane(job, tile, col);
  uint4 v[kLaneRows];
  load_words(job, at, v);
  const std::uint32_t amax = amax_of_column(v, at, shared);
  if (share_scales(job, coder, tile, col, amax, shared)) {
    encode_words<true>(coder, v, at, shared);
  } else {
    encode_words<false>(coder, v, at, shared);
  }
  __syncthreads();
  store_wide(job, tile, col, shared);
}

}  // namespace

bool takes_wide(const TransposeJob& job, bool vector) {
  constexpr std::int64_t kMostParts = 65535;  // of a grid's second extent
  return vector && job.out.coding.block == kTileRows && (job.scales != nullptr || job.dtype == Dtype::bf16) &&
         job.stride <= std::numeric_limits<std::int32_t>::max() && job.cols >= kEach &&
         job.cols <= kMostParts * kWideCols;
}

cudaError_t launch_wide(const TransposeJob& job, cudaStream_t stream) {
  if (job.rows.tiles == 0) return cudaSuccess;
  const auto parts = static_cast<unsigned>((job.cols + kWideCols - 1) / kWideCols);
  const dim3 grid(static_cast<unsigned>(job.rows.tiles), parts);
  if (job.scales != nullptr) return launch_wide_codes(job, grid, stream);
  return with_coder(job.out.coding, [&](auto coder) {
    transpose_wide<<<grid, kWideThreads, 0, stream>>>(job, coder);
    return cudaGetLastError();
  });
}

}  // namespace mxcheck_kernels::sm90
