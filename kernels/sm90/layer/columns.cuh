#pragma once
// A tile of 128 rows and 64 columns in shared memory to transposed codes. Rows past the tile's are zeros.

#include <cstdint>

#include "kernels/sm90/layer/columns.h"
#include "kernels/sm90/layer/values.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kTileCols = 64;
inline constexpr int kTileThreads = 256;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kQuarter = 32;  // rows of a thread, one column each: the smaller block

// Pitches are odd in words: neighbouring columns of a row, and a row of neighbouring columns, are in different banks.
inline constexpr int kCodePitch = kTileRows / 4 + 1;  // words

struct ColumnShared {
  std::uint32_t codes[kTileCols * kCodePitch];
  std::uint32_t amax[kTileThreads];
};

// Tile t's rows; false where there is none.
__device__ __forceinline__ bool find_tile(const TiledRows& rows, std::int64_t t, int block, RowTile& tile) {
  if (rows.header != nullptr && rows.header->status != MXCHECK_OK) return false;
  if (rows.table != nullptr) {
    if (t >= rows.header->tiles) return false;
    tile = rows.table[t];
    return true;
  }
  tile.first = static_cast<std::int32_t>(t * kTileRows);
  tile.rows = static_cast<std::int32_t>(min(std::int64_t{kTileRows}, rows.rows - t * kTileRows));
  tile.band = static_cast<std::int32_t>(t * (kTileRows / block));
  return true;
}

// 128 bytes of a column from `first` on: words where they are aligned.
__device__ __forceinline__ void store_column(std::uint8_t* to, const std::uint32_t* codes, int rows, int lane) {
  const std::uint32_t word = codes[lane];
  const int count = min(max(rows - lane * 4, 0), 4);
  std::uint8_t* const at = to + lane * 4;
  if (count == 4 && reinterpret_cast<std::uintptr_t>(at) % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(at) = word;
    return;
  }
  for (int i = 0; i < count; ++i) at[i] = static_cast<std::uint8_t>(word >> 8 * i);
}

// value(row, column of the tile) is FP32. By all threads of the block; passes barriers, the first of which separates
// what wrote the tile from what reads it. col: of the tile's first, of `cols`; rows_total: of the matrix.
template <class Value>
__device__ __forceinline__ void write_columns(const ColumnCodes& out, const RowTile& tile, std::int64_t rows_total,
                                              std::int64_t col, std::int64_t cols, ColumnShared& shared,
                                              const Value& value) {
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kTileCols;
  const int quarter = thread / kTileCols;
  const DeviceCoding& c = out.coding;
  __syncthreads();
  float v[kQuarter];
  std::uint32_t amax = 0;
#pragma unroll
  for (int r = 0; r < kQuarter; ++r) {
    v[r] = value(quarter * kQuarter + r, column);
    amax = max(amax, magnitude(v[r]));
  }
  if (c.block == kTileRows) {
    shared.amax[thread] = amax;
    __syncthreads();
    for (int q = 0; q < kTileRows / kQuarter; ++q) amax = max(amax, shared.amax[q * kTileCols + column]);
  }
  const BlockScale scale = block_scale(c, amax);
  const bool first = c.block == kQuarter || quarter == 0;
  if (first && quarter * kQuarter < tile.rows && col + column < cols) {
    store_scale(c, out.scales, (col + column) * out.bands + tile.band + quarter, scale.stored);
  }
#pragma unroll
  for (int i = 0; i < kQuarter / 4; ++i) {
    shared.codes[column * kCodePitch + quarter * (kQuarter / 4) + i] =
        codes_of(c, v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3], scale.by);
  }
  __syncthreads();
  const int lane = thread % 32;
  for (int i = thread / 32; i < kTileCols && col + i < cols; i += kTileWarps) {
    store_column(out.codes + (col + i) * rows_total + tile.first, shared.codes + i * kCodePitch, tile.rows, lane);
  }
}

}  // namespace mxcheck_kernels::sm90
