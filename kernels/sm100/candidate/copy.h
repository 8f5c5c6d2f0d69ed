#pragma once
// Operands that TMA cannot read where they are, copied to rows that it can: at multiples of 16 bytes, gathered, and
// each group of k filled up with zeros to whole blocks of 32. Such zeros change no sum: a product of zero adds nothing
// and does not widen the window (numerics/accumulate/fused_sum.h, steps 2 and 3). A kernel on the thin layer.

#include <cstdint>

#include "kernels/sm100/scales/pack.h"

namespace mxcheck_kernels::sm100 {

inline constexpr int kCopyThreads = 64;

struct CopyJob {
  const std::uint8_t* from = nullptr;  // rows of row_bytes, one after the other, at any address
  std::uint32_t* to = nullptr;         // rows of pitch_bytes
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0;         // a multiple of 32: those of all groups, whatever is beyond them is zeroed
  const std::int32_t* index = nullptr;  // row i is row index[i] of `from`; null: row i
  mxcheck::sm100::scales::Groups depth;
};

// Bytes `from` to `to` of a row as words of the copy, the last of them perhaps followed by zeros.
MXCHECK_SM100_DEVICE void copy_row(const std::uint8_t* from, std::int64_t bytes, std::uint32_t* to,
                                   std::int64_t words) {
  for (std::int64_t w = mxcheck::sm100::thread_index(); w < words; w += mxcheck::sm100::block_threads()) {
    std::uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      const std::int64_t at = w * 4 + j;
      if (at < bytes) word |= std::uint32_t{from[at]} << (8 * j);
    }
    to[w] = word;
  }
}

// Any number of threads and CTAs: a CTA takes every grid_blocks()-th row.
MXCHECK_SM100_DEVICE void copy(const CopyJob& job) {
  constexpr std::int64_t kBlock = mxcheck::sm100::scales::kBlock;
  for (std::int64_t row = mxcheck::sm100::block_index(); row < job.rows; row += mxcheck::sm100::grid_blocks()) {
    const std::uint8_t* const from = job.from + (job.index != nullptr ? job.index[row] : row) * job.row_bytes;
    std::uint32_t* const to = job.to + row * (job.pitch_bytes / 4);
    std::int64_t at = 0;
    for (std::int64_t e = 0; e < job.depth.count; ++e) {
      const std::int64_t padded = (job.depth.length(e) + kBlock - 1) / kBlock * kBlock;
      copy_row(from + job.depth.begin(e), job.depth.length(e), to + at / 4, padded / 4);
      at += padded;
    }
    copy_row(nullptr, 0, to + at / 4, (job.pitch_bytes - at) / 4);
  }
}

}  // namespace mxcheck_kernels::sm100
