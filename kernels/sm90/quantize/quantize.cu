// The quantization kernel by tiles of 128 x 128: one read of a tile, and the codes and scales of blocks of any offered
// shape from it.

#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/shift.cuh"
#include "kernels/sm90/quantize/tile.cuh"

namespace mxcheck_kernels::sm90 {

// Shared memory: what the warps of a block tell each other, and scale bytes on their way to coalesced stores.
template <class T>
struct Shared {
  alignas(16) std::uint8_t row[kScaleTile];            // as in a tile of scales: in_scale_tile(row, block)
  alignas(16) std::uint8_t column[kScaleTile];         // in_scale_tile(column, band)
  alignas(16) float factor[kWarps][4][kWarpRows + 4];  // of 1 x 32 blocks, or [0] of 1 x 128; padded for the banks
  Four<T> amax[kWarps][32];                            // of each warp's columns
};

__device__ __forceinline__ std::uint32_t shared_word(const std::uint8_t* bytes, int at) {
  return *reinterpret_cast<const std::uint32_t*>(bytes + at);
}

// The 512 bytes of a scale tile that is this block's alone, from `offset` on, by 128 threads.
__device__ __forceinline__ void store_scale_tile(const ScalePlace& to, std::int64_t offset, const std::uint8_t* bytes,
                                                 int thread) {
  store_scales(to, offset + thread * 4, shared_word(bytes, thread * 4), 4);
}

// Scales and factors of 1 x kBlock blocks of this warp's rows.
template <class T, Element kElement, int kBlock>
__device__ __forceinline__ void share_row_scales(const Place& p, const QuantizeJob& job, const Four<T> (&a)[kWarpRows],
                                                 Shared<T>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint2 amax = row_amax<T, kBlock>(a);
  const int block = kBlock == 32 ? lane / 8 : 0;
  const int row = 2 * (kBlock == 32 ? lane % 8 : lane / 4);
  const std::uint32_t first = scale_byte<kElement>(amax.x, job.addend);
  const std::uint32_t second = scale_byte<kElement>(amax.y, job.addend);
  *reinterpret_cast<float2*>(&shared.factor[warp][block][row]) = {factor_of(first), factor_of(second)};
  if (kBlock == 128 && lane % 4 != 0) return;
  const std::uint8_t pad = job.row.scales.pad;
  const bool inside = p.c * kTile + block * 32 < p.cols;
  const int at = warp * kWarpRows + row;
  shared.row[in_scale_tile(at, block)] = inside && at < p.tile.rows ? static_cast<std::uint8_t>(first) : pad;
  shared.row[in_scale_tile(at + 1, block)] = inside && at + 1 < p.tile.rows ? static_cast<std::uint8_t>(second) : pad;
}

// After a barrier, by 128 threads, one row each.
template <int kBlock>
__device__ __forceinline__ void store_row_scales(const Place& p, const ScalePlace& to, const std::uint8_t* bytes,
                                                 int row) {
  if constexpr (kBlock == 32) {
    if (to.tiled) return store_scale_tile(to, row_scale_offset<32>(p, true, 0, 0), bytes, row);
    const std::int64_t count = divide_up(p.cols, 32) - p.c * 4;
    if (row >= p.tile.rows) return;
    store_scales(to, row_scale_offset<32>(p, false, row, 0), shared_word(bytes, in_scale_tile(row, 0)),
                 static_cast<int>(min(count, std::int64_t{4})));
  } else {
    if (!to.tiled && row >= p.tile.rows) return;
    const std::int64_t offset = row_scale_offset<128>(p, to.tiled, row, 0);
    to.bytes[offset] = bytes[in_scale_tile(row, 0)];
    if (to.tiled && p.c == p.columns - 1) {  // the last block of the row pads the tile
      for (int j = 1; j < 4 - p.c % 4; ++j) to.bytes[offset + j] = to.pad;
    }
  }
}

// The amax of the lane's columns over all rows of a block of kBlock rows. Passes a barrier.
template <class T, int kBlock>
__device__ __forceinline__ Four<T> over_warps(const Four<T>& mine, Shared<T>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  shared.amax[warp][lane] = mine;
  __syncthreads();
  if constexpr (kBlock == 32) return larger<T>(mine, shared.amax[warp ^ 1][lane]);
  Four<T> m = shared.amax[0][lane];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) m = larger<T>(m, shared.amax[w][lane]);
  return m;
}

// Scales of kBlock x 1 blocks: `bytes` of the lane's 4 columns. The first warp of each band (of the tile) stores them.
template <class T, int kBlock>
__device__ __forceinline__ void put_column_scales(const Place& p, const ScalePlace& to, std::uint32_t bytes,
                                                  Shared<T>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int band = kBlock == 32 ? warp / 2 : 0;
  if (warp != band * 2) return;
  const bool rows = band * 32 < p.tile.rows;
  const int count = static_cast<int>(min(max(p.cols - p.c * kTile - lane * 4, std::int64_t{0}), std::int64_t{4}));
  if (!to.tiled) {
    if (rows && count > 0) store_scales(to, column_scale_offset<kBlock>(p, false, lane * 4, band), bytes, count);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint8_t byte = rows && i < count ? static_cast<std::uint8_t>(byte_of(bytes, i)) : to.pad;
    if constexpr (kBlock == 32) {
      shared.column[in_scale_tile(lane * 4 + i, band)] = byte;
    } else {
      const std::int64_t offset = column_scale_offset<128>(p, true, lane * 4 + i, 0);
      to.bytes[offset] = byte;
      if (p.tile.in_expert == p.tile.of_expert - 1) {
        for (int j = 1; j < 4 - p.tile.in_expert % 4; ++j) to.bytes[offset + j] = to.pad;
      }
    }
  }
}

// The scale byte of a kBlock x kBlock block, from the amax of the lane's columns over its rows.
template <Element kElement, int kBlock>
__device__ __forceinline__ std::uint32_t square_scale(const Place& p, const QuantizeJob& job, uint4 columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t amax = largest(columns);
#pragma unroll
  for (int mask = kBlock / 8; mask > 0; mask /= 2) amax = max(amax, __shfl_xor_sync(kAll, amax, mask));
  const std::uint32_t byte = scale_byte<kElement>(amax, job.addend);
  std::uint8_t* scales = job.row.scales.bytes;
  if constexpr (kBlock == 32) {
    const int band = warp / 2;
    const std::int64_t col = p.c * 4 + lane / 8;
    const std::int64_t count = divide_up(p.cols, 32);
    if (warp % 2 == 0 && lane % 8 == 0 && band * 32 < p.tile.rows && col < count) {
      scales[(p.tile.bands + band) * count + col] = static_cast<std::uint8_t>(byte);
    }
  } else if (threadIdx.x == 0) {
    scales[p.t * p.columns + p.c] = static_cast<std::uint8_t>(byte);
  }
  return byte;
}

// The codes of a warp's rows from row `first` on, by code(r) of a lane's 4 columns.
template <bool kVector, class Edge, class Code>
__device__ __forceinline__ void store_tile(const Place& p, std::uint8_t* codes, std::int64_t first, int rows,
                                           Edge* edges, const Code& code) {
  const std::int64_t col = p.c * kTile + (kVector ? static_cast<int>(threadIdx.x) % 32 * 4 : 0);
  const std::int64_t start = first * p.cols + col;
  if constexpr (kVector) {
    store_rows<kWarpRows>(codes + start, p.cols, rows, col < p.cols,
                          [&](std::uint8_t* at, int r) { ptx::st_global_no_allocate(at, code(r)); });
  } else {
    const int cols = static_cast<int>(min(p.cols - col, std::int64_t{kTile}));
    store_shifted<std::uint32_t, kWarpRows>(codes + start, p.cols, rows, cols, edges[threadIdx.x / 32], code);
  }
}

// One block of threads a tile. kRow, kColumn, kSquare: the extent of the blocks of each kind, 0 for none; rows are
// those of dual casts, beside columns. Unless kVector, rows may start anywhere.
template <class T, Element kElement, int kRow, int kColumn, int kSquare, bool kVector>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2
                                            : kVector      ? 4
                                                      : 3) quantize_kernel(const __grid_constant__ QuantizeJob job) {
  static_assert(kRow == 0 || (kVector && kColumn == kRow));
  __shared__ Shared<T> shared;
  __shared__ Edges<kWarpRows, Four<T>::kWords, 1> edges[kVector ? 1 : kWarps];
  Place p;
  p.t = blockIdx.x / static_cast<unsigned>(job.columns);
  p.c = blockIdx.x % static_cast<unsigned>(job.columns);
  p.columns = job.columns;
  p.cols = job.cols;
  if (!find_tile(job.rows, p.t, p.tile)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = p.tile.first_row + warp * kWarpRows;
  const int rows = min(max(p.tile.rows - warp * kWarpRows, 0), kWarpRows);

  Four<T> a[kWarpRows];
  if constexpr (kVector) {
    const std::int64_t col = p.c * kTile + lane * 4;
    load_tile(job.x, first, rows, col, col < p.cols, a);
  } else {
    const int cols = static_cast<int>(min(p.cols - p.c * kTile, std::int64_t{kTile}));
    const int before = load_shifted<T, Four<T>::kWords>(job.x, first, rows, p.c * kTile, cols, a, edges[warp]);
    shift_rows<T, Four<T>::kWords>(a, cols, before, edges[warp]);
  }

  float4 factor = {};  // kColumn, kSquare: of the lane's columns
  if constexpr (kRow != 0) share_row_scales<T, kElement, kRow>(p, job, a, shared);
  if constexpr (kColumn != 0) {
    const std::uint32_t bytes =
        scale_bytes<kElement>(amax_bits(over_warps<T, kColumn>(column_amax<T>(a), shared)), job.addend);
    factor = factors_of(bytes);
    put_column_scales<T, kColumn>(p, job.column.scales, bytes, shared);
  }
  if constexpr (kSquare != 0) {
    const float f = factor_of(
        square_scale<kElement, kSquare>(p, job, amax_bits(over_warps<T, kSquare>(column_amax<T>(a), shared))));
    factor = {f, f, f, f};
  }
  if constexpr (kRow != 0 || kColumn == 32) {
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.x) % kTile;
    if (kRow != 0 && warp < 4) store_row_scales<kRow>(p, job.row.scales, shared.row, thread);
    if (kColumn == 32 && warp >= 4 && job.column.scales.tiled) {
      store_scale_tile(job.column.scales, column_scale_offset<32>(p, true, 0, 0), shared.column, thread);
    }
  }
  if constexpr (kRow != 0) {
    const float* row_factor = shared.factor[warp][kRow == 32 ? lane / 8 : 0];
    store_tile<kVector>(p, job.row.codes, first, rows, edges, [&](int r) {
      const float f = row_factor[r];
      return encode<kElement>(a[r].values(), {f, f, f, f});
    });
  }
  if constexpr (kColumn != 0 || kSquare != 0) {
    store_tile<kVector>(p, kSquare != 0 ? job.row.codes : job.column.codes, first, rows, edges,
                        [&](int r) { return encode<kElement>(a[r].values(), factor); });
  }
}

template <class T, Element kElement, int kRow, int kColumn, int kSquare>
cudaError_t launch_tiles(const QuantizeJob& job, bool vector, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(job.rows.tiles * job.columns);
  auto kernel = quantize_kernel<T, kElement, kRow, kColumn, kSquare, true>;
  if constexpr (kRow == 0) {
    if (!vector) kernel = quantize_kernel<T, kElement, kRow, kColumn, kSquare, false>;
  }
  return launch_after_plan(kernel, job.rows, grid, kThreads, stream, job);
}

template <int kRow, int kColumn, int kSquare>
cudaError_t launch_tiles(const QuantizeJob& job, Dtype dtype, Element element, bool vector, cudaStream_t stream) {
  if (dtype == Dtype::bf16) {
    if (element == Element::e4m3) {
      return launch_tiles<__nv_bfloat16, Element::e4m3, kRow, kColumn, kSquare>(job, vector, stream);
    }
    return launch_tiles<__nv_bfloat16, Element::e5m2, kRow, kColumn, kSquare>(job, vector, stream);
  }
  if (element == Element::e4m3) {
    return launch_tiles<float, Element::e4m3, kRow, kColumn, kSquare>(job, vector, stream);
  }
  return launch_tiles<float, Element::e5m2, kRow, kColumn, kSquare>(job, vector, stream);
}

cudaError_t quantize_column(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream) {
  if (block == 32) return launch_tiles<0, 32, 0>(job, dtype, element, vector, stream);
  return launch_tiles<0, 128, 0>(job, dtype, element, vector, stream);
}

cudaError_t quantize_square(const QuantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                            cudaStream_t stream) {
  if (block == 32) return launch_tiles<0, 0, 32>(job, dtype, element, vector, stream);
  return launch_tiles<0, 0, 128>(job, dtype, element, vector, stream);
}

cudaError_t quantize_dual(const QuantizeJob& job, int block, Dtype dtype, Element element, cudaStream_t stream) {
  if (block == 32) return launch_tiles<32, 32, 0>(job, dtype, element, true, stream);
  return launch_tiles<128, 128, 0>(job, dtype, element, true, stream);
}

}  // namespace mxcheck_kernels::sm90
