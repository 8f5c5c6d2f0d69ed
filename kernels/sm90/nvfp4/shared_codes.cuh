#pragma once
// Codes of squares that hold in both directions: those of the rows of a tile, turned, without a second rounding.
//
// Layout: shared memory has a column's codes of 16 rows in eight bytes (places.cuh), of which a thread with four rows
// writes two. Scale bytes lie behind the codes.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/places.cuh"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {

// Nibbles of `low` where the lower ones of bytes are, and of `high` where the upper ones are.
__device__ __forceinline__ std::uint32_t nibbles(std::uint32_t low, std::uint32_t high) {
  return (low & 0x0F0F0F0FU) | (high & 0xF0F0F0F0U);
}

// byte: the scale of the thread's square.
__device__ __forceinline__ void write_codes(uint4* tile, const RowCodes& codes, std::uint32_t byte) {
  auto* quarters = reinterpret_cast<std::uint16_t*>(tile);
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int quarter = static_cast<int>(threadIdx.x) / kSideBlocks % 4;
  const int block = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t w[kRowsOfThread];
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) w[r] = codes.row[r].w[half];
    const std::uint32_t even[] = {nibbles(w[0], w[1] << 4), nibbles(w[2], w[3] << 4)};
    const std::uint32_t odd[] = {nibbles(w[0] >> 4, w[1]), nibbles(w[2] >> 4, w[3])};
    const std::uint32_t two[] = {__byte_perm(even[0], even[1], 0x5140), __byte_perm(even[0], even[1], 0x7362),
                                 __byte_perm(odd[0], odd[1], 0x5140), __byte_perm(odd[0], odd[1], 0x7362)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = across * kElements + 8 * half + first_of_pair(i);
      quarters[4 * place_of_column(column, block) + quarter] = static_cast<std::uint16_t>(two[i]);
      quarters[4 * place_of_column(column + 2, block) + quarter] = static_cast<std::uint16_t>(two[i] >> 16);
    }
  }
  if (quarter == 0) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(tile) + kTileCodeBytes;
    bytes[across * kSideBlocks + block] = static_cast<std::uint8_t>(byte);
  }
}

// Four columns of this thread, as rows of the transposed matrix.
__device__ __forceinline__ void store_columns(const Nvfp4Job& job, const Place& at, const uint4* tile) {
  if (at.count <= 0 || at.rows <= 0) return;
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int first = static_cast<int>(threadIdx.x) / kSideBlocks * kRowsOfThread;
  if (threadIdx.x % 32 < kSideBlocks) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(tile) + kTileCodeBytes;
    job.scales[at.row / kElements * job.blocks + at.block] = bytes[first / kElements * kSideBlocks + across];
  }
  const std::int64_t row_bytes = (job.cols + 1) / 2;
  std::uint8_t* to = job.codes + at.row * row_bytes + at.block * (kElements / 2);
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    if (r >= at.rows) break;
    const uint2 both = reinterpret_cast<const uint2*>(tile)[place_of_column(first + r, across)];
    store_block(job, to + r * row_bytes, {{both.x, both.y}}, at.count);
  }
}

}  // namespace mxcheck_kernels::sm90
