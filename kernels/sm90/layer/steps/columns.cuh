#pragma once
// Tiles of 128 rows in shared memory on their way to transposed codes: of 64 columns of BF16, encoded column by column;
// of 64 or 128 columns of codes, which the kernels made in registers. Rows past the tile's are zeros.

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/ptx/ptx.cuh"

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
  const std::uint32_t* const from = words + word_at(quarter * kQuarter + part * 4, pair);
#pragma unroll
  for (int i = 0; i < kQuarter / 2; ++i) {
    w[i] = from[(i / 4 * 8 + i % 4) * kRowWords];  // rows whose halves are exchanged alike
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
    const uint2 codes = coder.codes_of_columns(x, scales[0], scales[1]);
    to[0] = codes.x, to[kCodePitch] = codes.y;
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

// --- codes of 64 or 128 columns --------------------------------------------------------------------------------------
//
// A tile of 64 or 128 columns of 128 codes each on its way through shared memory: eight rows' codes of a column are
// written at once, sixteen are read and stored.
//
// A column has sixteen places of eight codes, exchanged by a number that differs among the columns that half a warp
// writes at once, whether these are 4 or 8 apart: then each lane writes to banks of its own. It exchanges both halves
// of sixteen codes or neither, so that these are one read.

template <int kCols>
using TransposedTile = uint4[kCols * kTileRows / sizeof(uint4)];

__device__ __forceinline__ int exchange_of(int column) { return (column >> 2 & 15) ^ column >> 6; }

// Codes of rows 8 * eighth on.
__device__ __forceinline__ void put_eight(uint4* tile, int column, int eighth, uint2 codes) {
  reinterpret_cast<uint2*>(tile)[column * (kTileRows / 8) + (eighth ^ exchange_of(column))] = codes;
}

// Codes of rows 16 * piece on.
__device__ __forceinline__ uint4 take_sixteen(const uint4* tile, int column, int piece) {
  const int exchange = exchange_of(column);
  const uint4 v = tile[column * (kTileRows / 16) + (piece ^ exchange >> 1)];
  return (exchange & 1) != 0 ? make_uint4(v.z, v.w, v.x, v.y) : v;
}

// The first `count` of four codes, at most all of them.
__device__ __forceinline__ std::uint32_t first_codes(std::uint32_t word, int count) {
  return count >= 4 ? word : count <= 0 ? 0 : word & ((1U << 8 * count) - 1);
}

__device__ __forceinline__ void store_codes(std::uint8_t* to, const uint4& codes, int count) {
  const std::uint32_t w[4] = {codes.x, codes.y, codes.z, codes.w};
  int i = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % 4 == 0) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (4 * k + 4 > count) break;
      reinterpret_cast<std::uint32_t*>(to)[k] = w[k];
      i = 4 * k + 4;
    }
  }
#pragma unroll 1
  for (; i < count; ++i) to[i] = static_cast<std::uint8_t>(w[i / 4] >> 8 * (i % 4));
}

// Where a tile's columns go: `to` is the first code of the first, `pitch` codes lie from a column to the next. The tile
// has `rows` rows and `columns` columns; padded: codes past the rows are +0, up to 128.
struct TransposedPlace {
  std::uint8_t* to;
  std::int64_t pitch;
  std::int64_t columns;
  int rows;
  bool padded;
};

// The tile, written and waited for, to memory by kThreads threads. Padded codes start at words at least.
template <int kThreads, int kCols>
__device__ __forceinline__ void store_transposed(const TransposedTile<kCols>& tile, const TransposedPlace& at,
                                                 int thread) {
  const int piece = thread % 8;
  const int first = thread / 8;
  const int count = at.rows - 16 * piece;
  std::uint8_t* to = at.to + first * at.pitch + 16 * piece;
  const std::int64_t step = kThreads / 8 * at.pitch;
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(at.to) | static_cast<std::uintptr_t>(at.pitch)) & 15) == 0;
  if (aligned && at.rows == kTileRows && at.columns >= kCols) {
#pragma unroll
    for (int c = 0; c < kCols; c += kThreads / 8, to += step) {
      ptx::st_global_no_allocate(to, take_sixteen(tile, first + c, piece));
    }
    return;
  }
#pragma unroll 1
  for (int c = first; c < kCols && c < at.columns; c += kThreads / 8, to += step) {
    uint4 v = take_sixteen(tile, c, piece);
    if (at.padded) {
      v = {first_codes(v.x, count), first_codes(v.y, count - 4), first_codes(v.z, count - 8),
           first_codes(v.w, count - 12)};
    }
    const int written = at.padded ? 16 : min(count, 16);
    if (aligned && written == 16) {
      ptx::st_global_no_allocate(to, v);
    } else {
      store_codes(to, v, written);
    }
  }
}

}  // namespace mxcheck_kernels::sm90
