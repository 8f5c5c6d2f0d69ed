#pragma once
// Shared by the kernels whose warps have 8 rows of 256 columns, 8 of each a lane: two tiles of 128 columns side by
// side.

#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/tile.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kLineRows = 8;
inline constexpr int kLineCols = 256;
inline constexpr int kWideWarps = kTile / kLineRows;

// Eight elements of one row.
template <class T>
struct Eight {
  static constexpr int kWords = 2 * static_cast<int>(sizeof(T));
  std::uint32_t w[kWords];
};

using Bf16Lines = Eight<__nv_bfloat16>[kLineRows];

// The place of chunk `chunk` of 256 columns in row tile t. False if there is no work.
__device__ __forceinline__ bool find_chunk(const QuantizeJob& job, std::int64_t t, std::int64_t chunk, Place& p) {
  p.t = t, p.c = 2 * chunk;
  p.columns = job.columns, p.cols = job.cols;
  return find_tile(job.rows, t, p.tile);
}

using WideBytes = std::uint8_t[kTile / 32][kLineCols];

// Scales of columns to tiles, from bytes[band] of 32 rows or bytes[0] of a tile's, after a barrier: thread t has word
// t % 128 of tile t / 128.
template <int kBlock>
__device__ __forceinline__ void store_wide_tiles(Place p, const ScalePlace& to, const WideBytes& bytes) {
  const int at = static_cast<int>(threadIdx.x) % kTile;
  const int column = at % 4 * 32 + at / 4;
  const int half = static_cast<int>(threadIdx.x) / kTile;
  p.c += half;
  if (half > 1 || p.c >= p.columns) return;
  const bool inside = p.c * kTile + column < p.cols;
  std::uint32_t word = to.pad * 0x01010101U;
#pragma unroll
  for (int band = 0; band < kTile / kBlock; ++band) {
    const std::uint32_t byte = bytes[band][half * kTile + column];
    if (inside && band * 32 < p.tile.rows) word = (word & ~(0xFFU << 8 * band)) | byte << 8 * band;
  }
  if constexpr (kBlock == 32) {
    store_scales(to, column_scale_offset<32>(p, true, 0, 0) + at * 4, word, 4);
  } else {
    const std::int64_t offset = column_scale_offset<128>(p, true, column, 0);
    const int last = p.tile.in_expert == p.tile.of_expert - 1 ? 4 - p.tile.in_expert % 4 : 1;  // pads the tile
    for (int j = 0; j < last; ++j) to.bytes[offset + j] = static_cast<std::uint8_t>(word >> 8 * j);
  }
}

}  // namespace mxcheck_kernels::sm90
