#pragma once
// A tile of 64 or 128 columns of 128 codes each on its way through shared memory: eight rows' codes of a column are
// written at once, sixteen are read and stored.
//
// A column has sixteen places of eight codes, exchanged by a number that differs among the columns that half a warp
// writes at once, whether these are 4 or 8 apart: then each lane writes to banks of its own. It exchanges both halves
// of sixteen codes or neither, so that these are one read.

#include <cstdint>

#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

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
