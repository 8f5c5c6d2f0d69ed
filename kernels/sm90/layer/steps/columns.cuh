#pragma once
// A tile of 128 rows and 64 columns in shared memory to transposed codes. Rows past the tile's are zeros.

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/columns.h"
#include "kernels/sm90/layer/steps/values.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kTileCols = 64;
inline constexpr int kTileThreads = 256;
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kQuarter = 32;  // rows of the smaller block
inline constexpr int kQuarters = kTileRows / kQuarter;

// A tile's BF16 words, two columns each. Halves of a row are exchanged in every other four rows: half a warp reads half
// a row, the other half that four rows further on, from the other half of the banks.
inline constexpr int kRowWords = kTileCols / 2;
using TileWords = std::uint32_t[kTileRows * kRowWords];
__device__ __forceinline__ int word_at(int row, int word) {
  return row * kRowWords + (word ^ (row >> 2 & 1) * (kRowWords / 2));
}

inline constexpr int kCodePitch = kTileRows / 4 + 1;  // words; odd, so that columns start in different banks

struct ColumnShared {
  std::uint32_t codes[kTileCols * kCodePitch];
  std::uint32_t amax[kQuarters][kTileCols];
};

// Tile t's rows; false where there is none.
__device__ __forceinline__ bool find_tile(const TiledRows& rows, std::int64_t t, int block, RowTile& tile) {
  if (rows.header != nullptr) {
    const std::int32_t status = rows.header->status;
    const std::int32_t tiles = rows.header->tiles;  // both are asked for at once: neither waits for the other
    if (status != MXCHECK_OK || (rows.table != nullptr && t >= tiles)) return false;
  }
  if (rows.table != nullptr) {
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

// The columns' scales: a word of `amax` is of two columns, of a quarter's rows. Passes a barrier for blocks of 128
// rows.
template <class Coder>
__device__ __forceinline__ void column_scales(const Coder& coder, std::uint32_t amax, int quarter, int column,
                                              ColumnShared& shared, BlockScale (&scales)[2]) {
  std::uint32_t of[2] = {amax << 16, amax & 0xFFFF0000};
  if (coder.block() == kTileRows) {
    shared.amax[quarter][column] = of[0];
    shared.amax[quarter][column + 1] = of[1];
    __syncthreads();
#pragma unroll
    for (int q = 0; q < kQuarters; ++q) {
      of[0] = max(of[0], shared.amax[q][column]);
      of[1] = max(of[1], shared.amax[q][column + 1]);
    }
  }
  scales[0] = coder.scale_of(of[0]);
  scales[1] = coder.scale_of(of[1]);
}

// Where a tile's columns go: `col` is the first of them, of `cols`.
struct ColumnPlace {
  std::int64_t col;
  std::int64_t cols;
};

// A tile's words, written and waited for, to codes in shared memory and scales. A warp has 32 columns and a quarter of
// the rows, a lane two columns and four rows in eight.
template <class Coder>
__device__ __forceinline__ void encode_columns(const ColumnCodes& out, const Coder& coder, const RowTile& tile,
                                               const ColumnPlace& at, int thread, ColumnShared& shared,
                                               const TileWords& words) {
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int quarter = warp / 2;
  const int pair = warp % 2 * 16 + lane % 16;
  const int part = lane / 16;
  std::uint32_t w[kQuarter / 2];
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < kQuarter / 2; ++i) {
    w[i] = words[word_at(quarter * kQuarter + i / 4 * 8 + part * 4 + i % 4, pair)];
    amax = larger_halves(amax, w[i]);
  }
  amax = __vmaxu2(amax, __shfl_xor_sync(kAllLanes, amax, 16));
  const int column = 2 * pair;
  BlockScale scales[2];
  column_scales(coder, amax, quarter, column, shared, scales);
  const bool first = part == 0 && (coder.block() == kQuarter || quarter == 0) && quarter * kQuarter < tile.rows;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    if (first && at.col + column + k < at.cols) {
      coder.store_scale(out.scales, (at.col + column + k) * out.bands + tile.band + quarter, scales[k]);
    }
  }
#pragma unroll
  for (int i = 0; i < kQuarter / 8; ++i) {
    const std::uint32_t* const x = w + 4 * i;
    std::uint32_t* const to = shared.codes + column * kCodePitch + quarter * (kQuarter / 4) + 2 * i + part;
    to[0] = coder.codes(low_half(x[0]), low_half(x[1]), low_half(x[2]), low_half(x[3]), scales[0]);
    to[kCodePitch] = coder.codes(high_half(x[0]), high_half(x[1]), high_half(x[2]), high_half(x[3]), scales[1]);
  }
}

// Stores the codes that encode_columns left, padded: whole columns of 128, whose codes past the tile's rows are +0.
// encode_columns may have made another code there: of a block of NaN it is that of NaN.
__device__ __forceinline__ void store_padded(const ColumnCodes& out, const RowTile& tile, const ColumnPlace& at,
                                             int warp, int lane, const ColumnShared& shared) {
  const int count = min(max(tile.rows - lane * 4, 0), 4);
  const std::uint32_t kept = count == 4 ? ~0U : (1U << 8 * count) - 1;
  const std::uint32_t* from = shared.codes + warp * kCodePitch + lane;
  std::uint8_t* to = out.codes + (at.col + warp) * out.stride + std::int64_t{tile.band} * kTileRows + lane * 4;
#pragma unroll 4
  for (int c = warp; c < kTileCols && at.col + c < at.cols; c += kTileWarps) {
    *reinterpret_cast<std::uint32_t*>(to) = *from & kept;
    to += kTileWarps * out.stride;
    from += kTileWarps * kCodePitch;
  }
}

// Stores the codes that encode_columns left, which the caller has waited for; out.stride is set. A whole tile whose
// columns start at words takes no look at each word.
__device__ __forceinline__ void store_columns(const ColumnCodes& out, const RowTile& tile, const ColumnPlace& at,
                                              int warp, int lane, const ColumnShared& shared) {
  if (out.padded) return store_padded(out, tile, at, warp, lane, shared);
  std::uint8_t* to = out.codes + (at.col + warp) * out.stride + tile.first;
  const std::uint32_t* from = shared.codes + warp * kCodePitch;
  const auto first = reinterpret_cast<std::uintptr_t>(out.codes) + static_cast<std::uintptr_t>(tile.first);
  const bool words = (first | static_cast<std::uintptr_t>(out.stride)) % 4 == 0;
  if (words && tile.rows == kTileRows && at.col + kTileCols <= at.cols) {
#pragma unroll
    for (int i = 0; i < kTileCols / kTileWarps; ++i) {
      reinterpret_cast<std::uint32_t*>(to)[lane] = from[i * kTileWarps * kCodePitch + lane];
      to += kTileWarps * out.stride;
    }
    return;
  }
#pragma unroll 1
  for (int c = warp; c < kTileCols && at.col + c < at.cols; c += kTileWarps) {
    store_column(to, from, tile.rows, lane);
    to += kTileWarps * out.stride;
    from += kTileWarps * kCodePitch;
  }
}

}  // namespace mxcheck_kernels::sm90
