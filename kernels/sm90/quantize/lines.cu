// Blocks of one row, read along the rows: a warp takes 8 rows of 256 columns, 16 bytes a lane and load, and the warps
// of a block of threads lie side by side, so that memory sees long runs even where rows are gathered by index.

#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/line_scales.cuh"
#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/shift.cuh"
#include "kernels/sm90/quantize/tile.cuh"
#include "kernels/sm90/quantize/wide.cuh"

namespace mxcheck_kernels::sm90 {

constexpr int kLineWarps = 8;
constexpr int kLineGroups = kTile / kLineRows;  // in a tile

__device__ __forceinline__ void load_eight(const __nv_bfloat16* at, Eight<__nv_bfloat16>& e) {
  ptx::ld_global_nc(at, e.w);
}
__device__ __forceinline__ void load_eight(const float* at, Eight<float>& e) {
  std::uint32_t low[4];
  std::uint32_t high[4];
  ptx::ld_global_nc(at, low);
  ptx::ld_global_nc(at + 4, high);
#pragma unroll
  for (int i = 0; i < 4; ++i) e.w[i] = low[i], e.w[i + 4] = high[i];
}

template <Element kElement>
__device__ __forceinline__ uint2 encode_eight(const Eight<__nv_bfloat16>& e, float f) {
  const Four<__nv_bfloat16> low{{e.w[0], e.w[1]}};
  const Four<__nv_bfloat16> high{{e.w[2], e.w[3]}};
  return {encode<kElement>(low.values(), {f, f, f, f}), encode<kElement>(high.values(), {f, f, f, f})};
}
template <Element kElement>
__device__ __forceinline__ uint2 encode_eight(const Eight<float>& e, float f) {
  const Four<float> low{{e.w[0], e.w[1], e.w[2], e.w[3]}};
  const Four<float> high{{e.w[4], e.w[5], e.w[6], e.w[7]}};
  return {encode<kElement>(low.values(), {f, f, f, f}), encode<kElement>(high.values(), {f, f, f, f})};
}

// Like scales_of_words().
template <class T, Element kElement, int kBlock>
__device__ __forceinline__ uint2 line_scales(const Eight<T> (&a)[kLineRows], std::uint32_t addend) {
  std::uint32_t w[kLineRows * sizeof(T) / 4];
  row_words<T, kLineRows>(w, [&](int r) {
    std::uint32_t m = magnitudes<T>(a[r].w[0]);
#pragma unroll
    for (int i = 1; i < Eight<T>::kWords; ++i) m = larger<T>(m, magnitudes<T>(a[r].w[i]));
    return m;
  });
  return scales_of_words<T, kElement, kBlock>(w, addend);
}

// Stores the scales of 8 rows of a tile from `first` on, and gives every lane the factors of its columns.
template <class T, Element kElement, int kBlock>
__device__ __forceinline__ void put_line_scales(const Place& p, const QuantizeJob& job, int first,
                                                const Eight<T> (&a)[kLineRows], float (&factor)[kLineRows]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint2 bytes = line_scales<T, kElement, kBlock>(a, job.addend);
  store_line_scales<kBlock, 1>(p, job.row.scales, first, bytes);
  const float even = factor_of(bytes.x);
  const float odd = factor_of(bytes.y);
#pragma unroll
  for (int r = 0; r < kLineRows; ++r) {
    const int from = kBlock == 32 ? (lane & 28) | r / 2 : (lane & 16) | r / 2 * 4;
    factor[r] = __shfl_sync(kAll, r % 2 == 0 ? even : odd, from);
  }
}

template <class T>
__device__ __forceinline__ void load_lines(const Matrix& x, std::int64_t first, int rows, std::int64_t col, bool inside,
                                           Eight<T> (&a)[kLineRows]) {
  if (rows < kLineRows || !inside) {
#pragma unroll
    for (int r = 0; r < kLineRows; ++r) a[r] = {};
  }
  load_rows<kLineRows, T>(x, first, rows, col, inside, [&](const T* at, int r) { load_eight(at, a[r]); });
}

// 8 rows of 256 columns that start anywhere.
template <class T, Element kElement, int kBlock>
__device__ __forceinline__ void shifted_lines(const Place& p, const QuantizeJob& job, int first, int rows) {
  __shared__ Edges<kLineRows, 4, 2> edges[kLineWarps];
  auto& edge = edges[threadIdx.x / 32];
  const std::int64_t col = p.c * kTile;
  const int cols = static_cast<int>(min(p.cols - col, std::int64_t{kLineCols}));
  Eight<T> a[kLineRows];
  const int before = load_shifted<T, 4>(job.x, p.tile.first_row + first, rows, col, cols, a, edge);
  shift_rows<T, 4>(a, cols, before, edge);
  float factor[kLineRows];
  put_line_scales<T, kElement, kBlock>(p, job, first, a, factor);
  store_shifted<uint2, kLineRows>(job.row.codes + (p.tile.first_row + first) * p.cols + col, p.cols, rows, cols, edge,
                                  [&](int r) { return encode_eight<kElement>(a[r], factor[r]); });
}

template <class T, Element kElement, int kBlock, bool kShifted = false>
__global__ void __launch_bounds__(kLineWarps * 32, sizeof(T) == 2 ? 4 : 2)
    lines_kernel(const __grid_constant__ QuantizeJob job, unsigned chunks, std::int64_t tasks) {
  const std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * kLineWarps + threadIdx.x / 32;
  if (task >= tasks) return;
  const std::int64_t group = task / chunks;
  Place p;
  if (!find_chunk(job, group / kLineGroups, task % chunks, p)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(group % kLineGroups) * kLineRows;  // of the tile
  const int rows = min(max(p.tile.rows - first, 0), kLineRows);
  if constexpr (kShifted) return shifted_lines<T, kElement, kBlock>(p, job, first, rows);
  const std::int64_t col = p.c * kTile + lane * 8;
  const bool inside = col < p.cols;

  Eight<T> a[kLineRows];
  load_lines(job.x, p.tile.first_row + first, rows, col, inside, a);
  float factor[kLineRows];
  put_line_scales<T, kElement, kBlock>(p, job, first, a, factor);
  store_rows<kLineRows>(
      job.row.codes + (p.tile.first_row + first) * p.cols + col, p.cols, rows, inside,
      [&](std::uint8_t* at, int r) { ptx::st_global_no_allocate(at, encode_eight<kElement>(a[r], factor[r])); });
}

template <class T, Element kElement>
cudaError_t launch_lines(const QuantizeJob& job, int block, bool shifted, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>(divide_up(job.cols, kLineCols));
  const std::int64_t tasks = job.rows.tiles * kLineGroups * chunks;
  const auto grid = static_cast<unsigned>(divide_up(tasks, kLineWarps));
  if (job.rows.header != nullptr || shifted) {
    const auto kernel = block == 32 ? shifted ? lines_kernel<T, kElement, 32, true> : lines_kernel<T, kElement, 32>
                        : shifted ? lines_kernel<T, kElement, 128, true>
                                    : lines_kernel<T, kElement, 128>;
    return launch_after_plan(kernel, job.rows, grid, kLineWarps * 32, stream, job, chunks, tasks);
  }
  if (block == 32) {
    lines_kernel<T, kElement, 32><<<grid, kLineWarps * 32, 0, stream>>>(job, chunks, tasks);
  } else {
    lines_kernel<T, kElement, 128><<<grid, kLineWarps * 32, 0, stream>>>(job, chunks, tasks);
  }
  return cudaGetLastError();
}

cudaError_t quantize_lines(const QuantizeJob& job, int block, Dtype dtype, Element element, bool shifted,
                           cudaStream_t stream) {
  if (dtype == Dtype::bf16) {
    if (element == Element::e4m3) return launch_lines<__nv_bfloat16, Element::e4m3>(job, block, shifted, stream);
    return launch_lines<__nv_bfloat16, Element::e5m2>(job, block, shifted, stream);
  }
  if (element == Element::e4m3) return launch_lines<float, Element::e4m3>(job, block, shifted, stream);
  return launch_lines<float, Element::e5m2>(job, block, shifted, stream);
}

// --- both directions -------------------------------------------------------------------------------------------------
//
// Both directions of BF16 from one read, by long runs: a block of 16 warps takes 128 rows of 256 columns, a warp 8 rows
// as above, so that a row is read in 512 bytes and each of its two lines of codes is written in 256. The codes
// of rows leave before the block waits for the amax of its columns.

struct WideShared {
  uint4 amax[kWideWarps][32];  // of each warp's columns
  alignas(8) WideBytes bytes;  // scales of each band's columns, of the tile's in [0]
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

struct WideFactors {
  float4 low, high;
};

template <Element kElement>
__device__ __forceinline__ uint2 encode_columns(const Eight<__nv_bfloat16>& e, float4 low, float4 high) {
  const Four<__nv_bfloat16> a{{e.w[0], e.w[1]}};
  const Four<__nv_bfloat16> b{{e.w[2], e.w[3]}};
  return {encode<kElement>(a.values(), low), encode<kElement>(b.values(), high)};
}

// Stores the scales of the columns, to tiles later, and gives every lane the factors of its 8. Passes a barrier.
template <Element kElement, int kBlock>
__device__ __forceinline__ WideFactors put_wide_scales(const Place& p, const QuantizeJob& job, const Bf16Lines& a,
                                                       WideShared& shared) {
  const uint4 m = wide_column_amax<kBlock>(a, shared);
  const uint2 bytes{scale_bytes<kElement>(amax_bits(Four<__nv_bfloat16>{{m.x, m.y}}), job.addend),
                    scale_bytes<kElement>(amax_bits(Four<__nv_bfloat16>{{m.z, m.w}}), job.addend)};
  put_wide_columns<kBlock>(p, job.column.scales, bytes, shared);
  return {factors_of(bytes.x), factors_of(bytes.y)};
}

template <Element kElement, int kBlock>
__global__ void __launch_bounds__(kWideWarps * 32, 2)
    wide_dual_kernel(const __grid_constant__ QuantizeJob job, unsigned chunks) {
  __shared__ WideShared shared;
  Place p;
  if (!find_chunk(job, blockIdx.x / chunks, blockIdx.x % chunks, p)) return;
  const int first = static_cast<int>(threadIdx.x) / 32 * kLineRows;  // of the tile
  const int rows = min(max(p.tile.rows - first, 0), kLineRows);
  const std::int64_t col = p.c * kTile + static_cast<int>(threadIdx.x) % 32 * 8;
  const bool inside = col < p.cols;
  const std::int64_t start = (p.tile.first_row + first) * p.cols + col;
  Bf16Lines a;
  load_lines(job.x, p.tile.first_row + first, rows, col, inside, a);
  float factor[kLineRows];
  put_line_scales<__nv_bfloat16, kElement, kBlock>(p, job, first, a, factor);
  store_rows<kLineRows>(job.row.codes + start, p.cols, rows, inside, [&](std::uint8_t* at, int r) {
    ptx::st_global_no_allocate(at, encode_eight<kElement>(a[r], factor[r]));
  });
  const WideFactors f = put_wide_scales<kElement, kBlock>(p, job, a, shared);
  store_rows<kLineRows>(job.column.codes + start, p.cols, rows, inside, [&](std::uint8_t* at, int r) {
    ptx::st_global_no_allocate(at, encode_columns<kElement>(a[r], f.low, f.high));
  });
  if (!job.column.scales.tiled) return;
  __syncthreads();
  store_wide_tiles<kBlock>(p, job.column.scales, shared.bytes);
}

template <Element kElement>
cudaError_t launch_wide_dual(const QuantizeJob& job, int block, cudaStream_t stream) {
  const auto chunks = static_cast<unsigned>(divide_up(job.cols, kLineCols));
  const auto grid = static_cast<unsigned>(job.rows.tiles * chunks);
  const auto kernel = block == 32 ? wide_dual_kernel<kElement, 32> : wide_dual_kernel<kElement, 128>;
  return launch_after_plan(kernel, job.rows, grid, kWideWarps * 32, stream, job, chunks);
}

cudaError_t quantize_wide_dual(const QuantizeJob& job, int block, Element element, cudaStream_t stream) {
  if (element == Element::e4m3) return launch_wide_dual<Element::e4m3>(job, block, stream);
  return launch_wide_dual<Element::e5m2>(job, block, stream);
}

}  // namespace mxcheck_kernels::sm90
