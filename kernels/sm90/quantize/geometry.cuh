#pragma once
// Places in the scales' layouts, as the device computes them (kernels/candidate.h has the layouts).

#include <cstdint>

#include "kernels/candidate.h"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/geometry.h"

namespace mxcheck_kernels::sm90 {

// False if the block has no work. Waits for the plan kernel, which may still be running.
__device__ __forceinline__ bool find_tile(const Rows& rows, std::int64_t t, RowTile& tile) {
  if (rows.header != nullptr) {
    ptx::griddepcontrol_wait();
    if (rows.table != nullptr) {
      tile = rows.table[t];
      return tile.rows != 0;
    }
    if (rows.header->status != MXCHECK_OK) return false;
  }
  tile.first_row = t * kTile;
  tile.bands = t * (kTile / 32);
  tile.quads = 0;
  tile.rows = static_cast<std::int32_t>(min(static_cast<std::int64_t>(kTile), rows.rows - tile.first_row));
  tile.in_expert = static_cast<std::int32_t>(t);
  tile.of_expert = static_cast<std::int32_t>(rows.tiles);
  return true;
}

// One block's place among tiles: row tile t, column tile c of `columns`.
struct Place {
  RowTile tile;
  std::int64_t t = 0;
  std::int64_t c = 0;
  std::int64_t columns = 0;  // column tiles
  std::int64_t cols = 0;     // of the matrix
};

__device__ __forceinline__ std::int64_t in_scale_tile(int row, int col) { return row % 32 * 16 + row / 32 * 4 + col; }

// Offset of the scale of 1 x kBlock block j (of this tile: 0 .. 128 / kBlock - 1) of row i.
template <int kBlock>
__device__ __forceinline__ std::int64_t row_scale_offset(const Place& p, bool tiled, int i, int j) {
  const std::int64_t col = p.c * (kTile / kBlock) + j;
  if (!tiled) return (p.tile.first_row + i) * divide_up(p.cols, kBlock) + col;
  const std::int64_t tiles = divide_up(divide_up(p.cols, kBlock), 4);
  return (p.t * tiles + col / 4) * kScaleTile + in_scale_tile(i, static_cast<int>(col % 4));
}

// Offset of the scale of kBlock x 1 block b (of this tile) of column i. Tiles hold the transposed scales.
template <int kBlock>
__device__ __forceinline__ std::int64_t column_scale_offset(const Place& p, bool tiled, int i, int b) {
  if (!tiled) return ((kBlock == 32 ? p.tile.bands : p.t) + b) * p.cols + p.c * kTile + i;
  if (kBlock == 32) {
    const std::int64_t before = (p.t - p.tile.in_expert) * p.columns;
    return (before + p.c * p.tile.of_expert + p.tile.in_expert) * kScaleTile + in_scale_tile(i, b);
  }
  const std::int64_t tiles = divide_up(p.tile.of_expert, 4);
  return (p.tile.quads * p.columns + p.c * tiles + p.tile.in_expert / 4) * kScaleTile +
         in_scale_tile(i, p.tile.in_expert % 4);
}

}  // namespace mxcheck_kernels::sm90
