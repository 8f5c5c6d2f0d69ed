#pragma once
// Scales as quantizers write them, [rows, blocks of 32 or 16], to the chunks of 128 rows by 4 blocks that tcgen05.cp
// copies: 512 bytes, of which word 4 (row % 32) + row / 32 has the row's four scales (PTX ISA 9.0, 9.7.16.10.7.2).
// Chunks along k follow one another, then those of the next 128 rows. Groups, of rows or of k, begin a chunk each; what
// of a chunk belongs to no scale is 0: an mma of NVFP4 reads whole words, and a NaN there would be its.
//
// A kernel on the thin layer: every thread has a row of a chunk.

#include <cstdint>

#include "kernels/sm100/tcgen05/warp.h"

namespace mxcheck::sm100::scales {

inline constexpr int kBlock = 32;       // elements of k of one E8M0 scale
inline constexpr int kChunkRows = 128;  // and threads of a CTA
inline constexpr int kChunkScales = 4;
inline constexpr int kChunkWords = 128;

// Groups that follow one another: by their offsets, or `count` of `extent` each.
struct Groups {
  const std::int64_t* offsets = nullptr;  // count + 1
  std::int64_t count = 1;
  std::int64_t extent = 0;

  [[nodiscard]] MXCHECK_SM100_ANYWHERE std::int64_t begin(std::int64_t g) const {
    return offsets != nullptr ? offsets[g] : g * extent;
  }
  [[nodiscard]] MXCHECK_SM100_ANYWHERE std::int64_t length(std::int64_t g) const {
    return offsets != nullptr ? offsets[g + 1] - offsets[g] : extent;
  }
  // Pieces of `size`, each group's last one perhaps shorter.
  [[nodiscard]] MXCHECK_SM100_ANYWHERE std::int64_t pieces(std::int64_t size) const {
    std::int64_t sum = 0;
    for (std::int64_t g = 0; g < count; ++g) sum += (length(g) + size - 1) / size;
    return sum;
  }
};

struct PackJob {
  const std::uint8_t* compact = nullptr;
  std::int64_t columns = 0;             // of it: the blocks of all groups of depth
  const std::int32_t* index = nullptr;  // row i is row index[i] of it; null: row i
  std::uint32_t* chunks = nullptr;
  std::int64_t block = kBlock;  // elements of k of one scale
  std::int64_t chunks_k = 0;    // depth.pieces(4 * block)
  Groups rows;
  Groups depth;
};

// The row's scales `block` to `block` + 3, as far as the group has them.
MXCHECK_SM100_DEVICE std::uint32_t word_of(const std::uint8_t* scales, std::int64_t count) {
  std::uint32_t word = 0;
  for (int j = 0; j < kChunkScales; ++j) {
    if (j < count) word |= std::uint32_t{scales[j]} << (8 * j);
  }
  return word;
}

// 128 threads a CTA, any number of CTAs: each takes every grid_blocks()-th chunk.
MXCHECK_SM100_DEVICE void pack(const PackJob& job) {
  const unsigned thread = thread_index();
  const unsigned slot = thread % 32 * 4 + thread / 32;
  std::int64_t chunk = 0;
  for (std::int64_t g = 0; g < job.rows.count; ++g) {
    for (std::int64_t first = 0; first < job.rows.length(g); first += kChunkRows) {
      const bool exists = first + thread < job.rows.length(g);
      const std::int64_t row = job.rows.begin(g) + first + thread;
      std::int64_t block = 0;  // of all groups of depth
      for (std::int64_t e = 0; e < job.depth.count; ++e) {
        const std::int64_t blocks = (job.depth.length(e) + job.block - 1) / job.block;
        for (std::int64_t b = 0; b < blocks; b += kChunkScales, ++chunk) {
          if (chunk % grid_blocks() != block_index()) continue;
          std::uint32_t word = 0;
          if (exists) {
            const std::int64_t from = job.index != nullptr ? job.index[row] : row;
            word = word_of(job.compact + from * job.columns + block + b, blocks - b);
          }
          job.chunks[chunk * kChunkWords + slot] = word;
        }
        block += blocks;
      }
    }
  }
}

}  // namespace mxcheck::sm100::scales
