#pragma once
// SwiGLU's gradient by tiles, where codes along tokens are asked for: one read of H and P for all outputs.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/columns.h"
#include "kernels/sm90/layer/steps/rows.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kTilePart = 64;  // columns of a tile

struct BackwardTilesJob {
  RowsJob rows;  // values (a, dh) are not written; sums: sums_bytes(rows, n, kTilePart)
  TiledRows tiles;
  ColumnCodes a;   // of A'
  ColumnCodes dh;  // of dH
};

// Whether launch_backward_tiles can: no block of a row holds gates and up values, nor columns of two tiles, and a
// tile's 64 columns are a subtree of the row's.
bool takes_tiles(const HInput& h, std::int64_t n, int block);
// vector, and packed H: as in rows.h.
cudaError_t launch_backward_tiles(const BackwardTilesJob& job, bool vector, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
