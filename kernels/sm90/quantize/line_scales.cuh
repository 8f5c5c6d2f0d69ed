#pragma once
// Scales of blocks of one row in a warp's 8 rows of 256 columns.

#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/tile.cuh"
#include "kernels/sm90/quantize/wide.cuh"

namespace mxcheck_kernels::sm90 {

// The scale bytes of rows 2k and 2k + 1 of the lane's group: k = lane % 4 of 4 lanes for blocks of 32, k = lane / 4 % 4
// of 16 lanes for blocks of 128. From words of each lane's rows, as row_words() has them.
template <class T, Element kElement, int kBlock>
__device__ __forceinline__ uint2 scales_of_words(std::uint32_t (&w)[kLineRows * sizeof(T) / 4], std::uint32_t addend) {
  constexpr int kWords = kLineRows * static_cast<int>(sizeof(T)) / 4;
  constexpr int kFirst = kBlock == 32 ? 2 : 8;
  reduce_scatter<T, kWords, kFirst>(w);
  reduce_scatter<T, kWords / 2, kFirst / 2>(w);
  if constexpr (kBlock == 128) {
    reduce<T, kWords / 4, 2>(w);
    reduce<T, kWords / 4, 1>(w);
  }
  const uint2 amax = two_rows<T>(w);
  return {scale_byte<kElement>(amax.x, addend), scale_byte<kElement>(amax.y, addend)};
}

// Stores the scales of rows 2k and 2k + 1 of 1 x 32 blocks, k = lane % 4 in block lane / 4: four blocks of a row make a
// word. Rows are kApart apart, from `first` of the tile on.
template <int kApart>
__device__ __forceinline__ void store_line_scales_32(const Place& p, const ScalePlace& to, int first, int chunk_blocks,
                                                     std::uint32_t even, std::uint32_t odd) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::uint32_t mine = even | odd << 8;
  const std::uint32_t beside = __shfl_xor_sync(kAll, mine, 4);
  const std::uint32_t pair = (lane & 4) != 0 ? beside | mine << 16 : mine | beside << 16;
  const std::uint32_t others = __shfl_xor_sync(kAll, pair, 8);
  if ((lane & 8) != 0) return;
  const int row = first + kApart * (2 * (lane % 4) + ((lane & 4) != 0 ? 1 : 0));
  const int block = lane / 16 * 4;  // of the chunk's blocks; chunk_blocks of them are inside the matrix
  if (block >= chunk_blocks) return;
  std::uint32_t word = (lane & 4) != 0 ? __byte_perm(pair, others, 0x7531) : __byte_perm(pair, others, 0x6420);
  const int count = min(chunk_blocks - block, 4);
  if (to.tiled) {
    const std::uint32_t pad = to.pad * 0x01010101U;
    if (row >= p.tile.rows) word = pad;
    if (count < 4) word = (word & ~(~0U << 8 * count)) | (pad & ~0U << 8 * count);
    store_scales(to, row_scale_offset<32>(p, true, row, block), word, 4);
  } else if (row < p.tile.rows) {
    store_scales(to, row_scale_offset<32>(p, false, row, block), word, count);
  }
}

// The same for 1 x 128 blocks, k = lane / 4 % 4 in block lane / 16.
template <int kApart>
__device__ __forceinline__ void store_line_scales_128(const Place& p, const ScalePlace& to, int first,
                                                      std::int64_t blocks, std::int64_t block, std::uint32_t even,
                                                      std::uint32_t odd) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane % 4 > 1 || block >= blocks) return;
  const int row = first + kApart * (2 * (lane / 4 % 4) + lane % 4);
  const bool real = row < p.tile.rows;
  if (!to.tiled && !real) return;
  const std::int64_t offset = row_scale_offset<128>(p, to.tiled, row, lane / 16);
  to.bytes[offset] = real ? static_cast<std::uint8_t>(lane % 4 == 0 ? even : odd) : to.pad;
  if (to.tiled && block == blocks - 1) {
    for (int j = 1; j < 4 - block % 4; ++j) to.bytes[offset + j] = to.pad;
  }
}

// Stores the scales of a chunk's blocks, from scales_of_words().
template <int kBlock, int kApart>
__device__ __forceinline__ void store_line_scales(const Place& p, const ScalePlace& to, int first, uint2 bytes) {
  if constexpr (kBlock == 32) {
    const std::int64_t blocks = divide_up(p.cols, 32) - p.c * 4;
    store_line_scales_32<kApart>(p, to, first, static_cast<int>(min(blocks, std::int64_t{8})), bytes.x, bytes.y);
  } else {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    store_line_scales_128<kApart>(p, to, first, p.columns, p.c + lane / 16, bytes.x, bytes.y);
  }
}

}  // namespace mxcheck_kernels::sm90
