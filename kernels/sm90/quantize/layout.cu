// Scales from one layout to the other: each block of threads owns the scales of its 128 x 128 elements, and in tiles
// the padding beside them.

#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/tile.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// One scale: line i, number j along the blocks, of `last + 1` that are owned, `count` of them real.
template <class Offset>
__device__ void move(const LayoutJob& job, bool real, const Offset& offset) {
  if (job.to_tiled) {
    job.to[offset(true)] = real ? job.from[offset(false)] : job.pad;
  } else if (real) {
    job.to[offset(false)] = job.from[offset(true)];
  }
}

template <BlockKind kKind, int kBlock>
__global__ void __launch_bounds__(kTile) layout_kernel(const __grid_constant__ LayoutJob job) {
  Place p;
  p.t = blockIdx.x / static_cast<unsigned>(job.columns);
  p.c = blockIdx.x % static_cast<unsigned>(job.columns);
  p.columns = job.columns;
  p.cols = job.cols;
  if (!find_tile(job.rows, p.t, p.tile)) return;
  const int i = static_cast<int>(threadIdx.x);
  if constexpr (kKind == BlockKind::row) {
    const bool row = i < p.tile.rows;
    for (int j = 0; j < kTile / kBlock; ++j) {
      const bool real = row && p.c * kTile + j * kBlock < p.cols;
      move(job, real, [&](bool tiled) { return row_scale_offset<kBlock>(p, tiled, i, j); });
    }
    if (kBlock == 128 && job.to_tiled && p.c == p.columns - 1) {
      const std::int64_t at = row_scale_offset<128>(p, true, i, 0);
      for (int j = 1; j < 4 - p.c % 4; ++j) job.to[at + j] = job.pad;
    }
  } else {
    const bool column = p.c * kTile + i < p.cols;
    for (int b = 0; b < kTile / kBlock; ++b) {
      const bool real = column && b * kBlock < p.tile.rows;
      move(job, real, [&](bool tiled) { return column_scale_offset<kBlock>(p, tiled, i, b); });
    }
    if (kBlock == 128 && job.to_tiled && p.tile.in_expert == p.tile.of_expert - 1) {
      const std::int64_t at = column_scale_offset<128>(p, true, i, 0);
      for (int b = 1; b < 4 - p.tile.in_expert % 4; ++b) job.to[at + b] = job.pad;
    }
  }
}

}  // namespace

cudaError_t change_layout(const LayoutJob& job, BlockKind kind, int block, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(job.rows.tiles * job.columns);
  if (kind == BlockKind::row && block == 32) layout_kernel<BlockKind::row, 32><<<grid, kTile, 0, stream>>>(job);
  if (kind == BlockKind::row && block == 128) layout_kernel<BlockKind::row, 128><<<grid, kTile, 0, stream>>>(job);
  if (kind == BlockKind::column && block == 32) layout_kernel<BlockKind::column, 32><<<grid, kTile, 0, stream>>>(job);
  if (kind == BlockKind::column && block == 128) {
    layout_kernel<BlockKind::column, 128><<<grid, kTile, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
