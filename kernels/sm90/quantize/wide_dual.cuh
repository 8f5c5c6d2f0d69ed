#pragma once
// Both directions of BF16 from one read, by long runs: a block of 16 warps takes 128 rows of 256 columns, a warp 8 rows
// as in lines.cuh, so that a row is read in 512 bytes and each of its two lines of codes is written in 256. The codes
// of rows leave before the block waits for the amax of its columns.

#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/lines.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kWideWarps = kTile / kLineRows;
using Bf16Lines = Eight<__nv_bfloat16>[kLineRows];

struct WideShared {
  uint4 amax[kWideWarps][32];                   // of each warp's columns
  alignas(8) std::uint8_t bytes[4][kLineCols];  // scales of each band's columns, of the tile's in [0]
};

__device__ __forceinline__ uint4 larger_halves(uint4 a, uint4 b) {
  return {__vmaxu2(a.x, b.x), __vmaxu2(a.y, b.y), __vmaxu2(a.z, b.z), __vmaxu2(a.w, b.w)};
}

// The amax of the lane's 8 columns over all rows of a block of kBlock rows. Passes a barrier.
template <int kBlock>
__device__ __forceinline__ uint4 wide_column_amax(const Bf16Lines& a, WideShared& shared) {
  constexpr int kWarpsOfBlock = kBlock / kLineRows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  uint4 m = {};
#pragma unroll
  for (int r = 0; r < kLineRows; ++r) {
    m = larger_halves(m, {magnitudes<__nv_bfloat16>(a[r].w[0]), magnitudes<__nv_bfloat16>(a[r].w[1]),
                          magnitudes<__nv_bfloat16>(a[r].w[2]), magnitudes<__nv_bfloat16>(a[r].w[3])});
  }
  shared.amax[warp][lane] = m;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarpsOfBlock; ++w) {
    m = larger_halves(m, shared.amax[warp / kWarpsOfBlock * kWarpsOfBlock + w][lane]);
  }
  return m;
}

// Scales of the columns from shared.bytes to tiles, after a barrier: thread t has word t % 128 of tile t / 128.
template <int kBlock>
__device__ __forceinline__ void store_wide_tiles(Place p, const ScalePlace& to, const WideShared& shared) {
  const int word = static_cast<int>(threadIdx.x) % kTile;
  const int column = word % 4 * 32 + word / 4;
  const int half = static_cast<int>(threadIdx.x) / kTile;
  p.c += half;
  if (half > 1 || p.c >= p.columns) return;
  const bool inside = p.c * kTile + column < p.cols;
  std::uint32_t bytes = to.pad * 0x01010101U;
#pragma unroll
  for (int band = 0; band < kTile / kBlock; ++band) {
    const std::uint32_t byte = shared.bytes[band][half * kTile + column];
    if (inside && band * 32 < p.tile.rows) bytes = (bytes & ~(0xFFU << 8 * band)) | byte << 8 * band;
  }
  if constexpr (kBlock == 32) {
    store_scales(to, column_scale_offset<32>(p, true, 0, 0) + word * 4, bytes, 4);
  } else {
    const std::int64_t offset = column_scale_offset<128>(p, true, column, 0);
    const int last = p.tile.in_expert == p.tile.of_expert - 1 ? 4 - p.tile.in_expert % 4 : 1;  // pads the tile
    for (int j = 0; j < last; ++j) to.bytes[offset + j] = static_cast<std::uint8_t>(bytes >> 8 * j);
  }
}

// The scales of the lane's 8 columns, as bytes; the first warp of each block of rows passes them on.
template <int kBlock>
__device__ __forceinline__ void put_wide_columns(const Place& p, const ScalePlace& to, uint2 bytes,
                                                 WideShared& shared) {
  constexpr int kWarpsOfBlock = kBlock / kLineRows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int band = warp / kWarpsOfBlock;
  if (warp % kWarpsOfBlock != 0) return;
  if (to.tiled) {
    *reinterpret_cast<uint2*>(&shared.bytes[band][lane * 8]) = bytes;
  } else if (band * 32 < p.tile.rows && p.c * kTile + lane * 8 < p.cols) {
    const std::int64_t offset = column_scale_offset<kBlock>(p, false, lane * 8, band);
    store_scales(to, offset, bytes.x, 4);
    store_scales(to, offset + 4, bytes.y, 4);
  }
}

template <Element kElement>
__device__ __forceinline__ uint2 encode_columns(const Eight<__nv_bfloat16>& e, float4 low, float4 high) {
  const Four<__nv_bfloat16> a{{e.w[0], e.w[1]}};
  const Four<__nv_bfloat16> b{{e.w[2], e.w[3]}};
  return {encode<kElement>(a.values(), low), encode<kElement>(b.values(), high)};
}

// p.c counts chunks of two column tiles, in units of one: it is even.
template <Element kElement, int kBlock>
__global__ void __launch_bounds__(kWideWarps * 32, 2)
    wide_dual_kernel(const __grid_constant__ QuantizeJob job, unsigned chunks) {
  __shared__ WideShared shared;
  Place p;
  p.t = blockIdx.x / chunks;
  p.c = 2 * (blockIdx.x % chunks);
  p.columns = job.columns;
  p.cols = job.cols;
  if (!find_tile(job.rows, p.t, p.tile)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * kLineRows;  // of the tile
  const int rows = min(max(p.tile.rows - first, 0), kLineRows);
  const std::int64_t col = p.c * kTile + lane * 8;
  const bool inside = col < p.cols;
  const std::int64_t start = (p.tile.first_row + first) * p.cols + col;

  Bf16Lines a;
  load_lines(job.x, p.tile.first_row + first, rows, col, inside, a);
  float factor[kLineRows];
  put_line_scales<__nv_bfloat16, kElement, kBlock>(p, job, first, a, factor);
  store_rows<kLineRows>(job.row.codes + start, p.cols, rows, inside, [&](std::uint8_t* at, int r) {
    ptx::st_global_no_allocate(at, encode_eight<kElement>(a[r], factor[r]));
  });

  const uint4 m = wide_column_amax<kBlock>(a, shared);
  const uint2 bytes{scale_bytes<kElement>(amax_bits(Four<__nv_bfloat16>{{m.x, m.y}}), job.addend),
                    scale_bytes<kElement>(amax_bits(Four<__nv_bfloat16>{{m.z, m.w}}), job.addend)};
  put_wide_columns<kBlock>(p, job.column.scales, bytes, shared);
  const float4 low = factors_of(bytes.x);
  const float4 high = factors_of(bytes.y);
  store_rows<kLineRows>(job.column.codes + start, p.cols, rows, inside, [&](std::uint8_t* at, int r) {
    ptx::st_global_no_allocate(at, encode_columns<kElement>(a[r], low, high));
  });
  if (!job.column.scales.tiled) return;
  __syncthreads();
  store_wide_tiles<kBlock>(p, job.column.scales, shared);
}

template <Element kElement>
cudaError_t launch_wide_dual(const QuantizeJob& job, int block, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>(divide_up(job.cols, kLineCols));
  const auto grid = static_cast<unsigned>(job.rows.tiles * chunks);
  const auto kernel = block == 32 ? wide_dual_kernel<kElement, 32> : wide_dual_kernel<kElement, 128>;
  return launch_after_plan(kernel, job.rows, grid, kWideWarps * 32, stream, job, chunks);
}

}  // namespace mxcheck_kernels::sm90
