#pragma once
// What keep.cu and restore.cu share: a warp has four rows of 256 columns, a lane eight neighbours of each, which are
// three words. They pass through shared memory, so that a warp loads and stores words that follow one another.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/sm90/layer/steps/values.cuh"
#include "kernels/sm90/moe/quantize/e5m6.cuh"
#include "kernels/sm90/moe/quantize/keep.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kKeepThreads = 256;
inline constexpr int kKeepWarps = kKeepThreads / 32;
inline constexpr int kKeepRows = 4;                      // of a warp
inline constexpr int kKeepColumns = 32 * kEach;          // of a warp
inline constexpr int kKeepWords = kKeepColumns / 8 * 3;  // of a warp's row

using KeepWords = std::uint32_t[kKeepRows][kKeepWords];

// What a lane has: its first row, how many of them there are, its column, and how many words its warp has of a row.
struct KeepPlace {
  std::int64_t row;
  int rows;
  std::int64_t col;
  int words;
};
__device__ __forceinline__ KeepPlace keep_place(std::int64_t rows, std::int64_t cols, unsigned chunks) {
  const unsigned group = blockIdx.x / chunks;
  const std::int64_t chunk = blockIdx.x - group * chunks;
  const std::int64_t row = (std::int64_t{group} * kKeepWarps + threadIdx.x / 32) * kKeepRows;
  const std::int64_t left = min(cols - chunk * kKeepColumns, std::int64_t{kKeepColumns});
  return {row, static_cast<int>(min(rows - row, std::int64_t{kKeepRows})),
          chunk * kKeepColumns + threadIdx.x % 32 * kEach, static_cast<int>(left) / 8 * 3};
}
// The words of a warp's first row; a row has 3 for each 8 columns.
__device__ __forceinline__ std::int64_t first_word(const KeepPlace& at, std::int64_t cols) {
  return at.row * (cols / 8 * 3) + (at.col / kKeepColumns) * kKeepWords;
}

__device__ __forceinline__ bool refused(const PlanHeader* header) {
  return header != nullptr && header->status != MXCHECK_OK;
}

// Blocks of threads, and how many are beside each other; none where there are too many.
struct KeepGrid {
  std::int64_t blocks;
  std::int64_t chunks;
  [[nodiscard]] bool fits() const { return blocks <= std::numeric_limits<std::int32_t>::max(); }
};
inline KeepGrid keep_grid(std::int64_t rows, std::int64_t cols) {
  const std::int64_t chunks = (cols + kKeepColumns - 1) / kKeepColumns;
  return {(rows + kKeepWarps * kKeepRows - 1) / (kKeepWarps * kKeepRows) * chunks, chunks};
}

}  // namespace mxcheck_kernels::sm90
