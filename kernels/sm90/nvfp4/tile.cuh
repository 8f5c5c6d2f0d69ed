#pragma once
// The tile of a block of threads that quantizes to NVFP4: who has which elements, and where codes and scales go. A
// thread has 16 columns, a block of scales, of four rows; the 32 threads of a warp lie side by side, two warps beside
// each other and four below: 16 rows of 1024 columns, which are whole blocks of either shape. All of a warp is in the
// same rows.

#include <algorithm>
#include <cstdint>
#include <limits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/places.cuh"
#include "kernels/sm90/ptx/arithmetic.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kWarpsAcross = 2;
inline constexpr int kAcross = 32 * kWarpsAcross;  // threads side by side
inline constexpr int kDown = kThreads / kAcross;
inline constexpr int kTileCols = kAcross * kElements;
inline constexpr int kTileRows = kDown * kRowsOfThread;
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;
inline constexpr std::int64_t kMostDown = 65535;  // blocks of threads in y and z
inline constexpr std::int64_t kScaleTileRows = 128;
inline constexpr std::int64_t kScaleTileBytes = 512;  // 128 x 4

static_assert(kTileRows == 16);  // a square block is a tile's

// 16 elements of a row, as they lie in memory.
template <class T>
struct Block {
  static inline constexpr int kWords = 4 * static_cast<int>(sizeof(T));
  std::uint32_t w[kWords];
};

__device__ __forceinline__ float element(const Block<__nv_bfloat16>& b, int i) {
  const std::uint32_t word = b.w[i / 2];
  return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
}
__device__ __forceinline__ float element(const Block<float>& b, int i) { return __uint_as_float(b.w[i]); }

// vector: each half of the block is there or not, and is aligned to 16 bytes.
template <class T>
__device__ __forceinline__ Block<T> load_block(const T* from, int count, bool vector) {
  Block<T> b{};
  if (vector) {
    constexpr int kHalf = Block<T>::kWords / 8;  // in words of 16 bytes
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      if (count <= i / kHalf * 8) continue;
      const uint4 word = __ldcs(reinterpret_cast<const uint4*>(from) + i);
      b.w[4 * i] = word.x, b.w[4 * i + 1] = word.y, b.w[4 * i + 2] = word.z, b.w[4 * i + 3] = word.w;
    }
    return b;
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    if (i >= count) continue;
    if constexpr (sizeof(T) == 2) {
      b.w[i / 2] |= static_cast<std::uint32_t>(__bfloat16_as_ushort(from[i])) << (i % 2 * 16);
    } else {
      b.w[i] = __float_as_uint(from[i]);
    }
  }
  return b;
}

// A thread's part of a matrix: a block of columns in each of four rows.
struct Place {
  std::int64_t row = 0;    // the first
  std::int64_t block = 0;  // of columns
  int rows = 0;            // that are there, maybe 0 or less; more than four count as four
  int count = 0;           // of columns that are there, likewise of 16
};

__device__ __forceinline__ Place place_at(const Nvfp4Job& job, std::int64_t row, std::int64_t block) {
  return {row, block, static_cast<int>(min(std::int64_t{kRowsOfThread}, job.rows - row)),
          static_cast<int>(min(std::int64_t{kElements}, job.cols - block * kElements))};
}

// Where the rows of x are: one after the other, or by index, of the row numbers that a kernel works with.
struct RowsInOrder {};
struct RowsByIndex {
  const void* x;
  const std::int32_t* index;
};

// Elements that are not there are 0.
template <class T>
__device__ __forceinline__ void load_blocks(const Nvfp4Job& job, const Place& at, Block<T> (&x)[kRowsOfThread]) {
  const T* from = static_cast<const T*>(job.x) + at.row * job.stride + at.block * kElements;
  if (job.wide && at.rows == kRowsOfThread) {  // whole blocks, but for columns that are not there at all
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      x[r] = {};
      if (at.count > 0) x[r] = load_block(from + r * job.stride, kElements, true);
    }
    return;
  }
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    x[r] = r < at.rows ? load_block(from + r * job.stride, at.count, job.vector) : Block<T>{};
  }
}

// All of a warp has the same rows, so that one transaction reads an index for all.
template <class T>
__device__ __forceinline__ void load_blocks(const Nvfp4Job& job, const RowsByIndex& rows, const Place& at,
                                            Block<T> (&x)[kRowsOfThread]) {
  std::int64_t row[kRowsOfThread];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) row[r] = r < at.rows ? __ldg(rows.index + at.row + r) : 0;
  const T* from = static_cast<const T*>(rows.x) + at.block * kElements;
  if (job.wide && at.rows == kRowsOfThread) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      x[r] = {};
      if (at.count > 0) x[r] = load_block(from + row[r] * job.stride, kElements, true);
    }
    return;
  }
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    x[r] = r < at.rows ? load_block(from + row[r] * job.stride, at.count, job.vector) : Block<T>{};
  }
}

// FP32 bits of the largest magnitude, NaN and Inf included.
__device__ __forceinline__ std::uint32_t largest(const Block<__nv_bfloat16>& b) {
  std::uint32_t two = b.w[0];
#pragma unroll
  for (int i = 1; i < 8; ++i) two = ptx::max_nan_xorsign_abs_bf16x2(two, b.w[i]);
  return max(two << 16 & kMagnitude, two & 0x7FFF0000U);
}
__device__ __forceinline__ std::uint32_t largest(const Block<float>& b) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) bits = max(bits, b.w[i] & kMagnitude);
  return bits;
}

// The largest magnitude that is no NaN.
template <class T>
__device__ __forceinline__ std::uint32_t largest_number(const Block<T>& b) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) most = fmaxf(most, fabsf(element(b, i)));  // the one that is no NaN
  return __float_as_uint(most);
}

// Codes of 16 elements, element i's in nibble i % 8 of word i / 8.
struct Codes {
  std::uint32_t w[2];
};

// to: of the block's first element. vector: aligned to 4 bytes.
__device__ __forceinline__ void store_codes(std::uint8_t* to, const Codes& codes, int count, bool vector) {
  if (vector) {
    __stcs(reinterpret_cast<std::uint32_t*>(to), codes.w[0]);
    if (count > 8) __stcs(reinterpret_cast<std::uint32_t*>(to) + 1, codes.w[1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kElements / 2; ++i) {
    if (2 * i < count) to[i] = static_cast<std::uint8_t>(codes.w[i / 4] >> (8 * (i % 4)));
  }
}

// Byte r of the result in lane b of four is byte b of the argument in lane r: of a word of four rows' scales of one
// block, a word of four blocks' scales of one row.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t word) {
  const std::uint32_t beside = __shfl_xor_sync(kAllLanes, word, 1);
  const std::uint32_t pair =
      (threadIdx.x & 1) == 0 ? __byte_perm(word, beside, 0x6240) : __byte_perm(word, beside, 0x3715);
  const std::uint32_t others = __shfl_xor_sync(kAllLanes, pair, 2);
  return (threadIdx.x & 2) == 0 ? __byte_perm(pair, others, 0x5410) : __byte_perm(pair, others, 0x3276);
}

// Scale bytes of a block in each of four rows, row r's in byte r: four of a row are written by one lane. Rows and
// columns that belong to no block get the padding, in tiles. The blocks of four lanes lie side by side.
__device__ __forceinline__ void store_scales(const Nvfp4Job& job, const Place& at, std::uint32_t bytes) {
  const std::int64_t first_row = at.row;
  const std::int64_t block = at.block;
  const std::int64_t blocks = job.blocks;
  std::uint32_t word = bytes;
  if (job.tiled && (block >= blocks || first_row + kRowsOfThread > job.rows)) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      if (first_row + r < job.rows && block < blocks) continue;
      word = (word & ~(0xFFU << (8 * r))) | static_cast<std::uint32_t>(job.pad) << (8 * r);
    }
  }
  word = transposed(word);
  const std::int64_t row = first_row + threadIdx.x % 4;
  const std::int64_t first = block / 4 * 4;
  std::uint8_t* to = job.scales;
  int count = 4;
  if (job.tiled) {
    const std::int64_t tiles = divide_up(blocks, 4);
    if (first >= 4 * tiles || row >= divide_up(job.rows, kScaleTileRows) * kScaleTileRows) return;
    const auto in_tile = static_cast<std::uint32_t>(row) % static_cast<std::uint32_t>(kScaleTileRows);
    to += (row / kScaleTileRows * tiles + first / 4) * kScaleTileBytes + in_tile % 32 * 16 + in_tile / 32 * 4;
  } else {
    if (first >= blocks || row >= job.rows) return;
    to += row * blocks + first;
    count = static_cast<int>(min(std::int64_t{4}, blocks - first));
  }
  if (job.words) {
    *reinterpret_cast<std::uint32_t*>(to) = word;
    return;
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

// With blocks of 16 rows: the maxima of a block's columns, in threads of four warps, to that of the block.
__device__ __forceinline__ std::uint32_t largest_of_rows(std::uint32_t (&shared)[kDown][kAcross], std::uint32_t bits) {
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  shared[threadIdx.x / kAcross][across] = bits;
  __syncthreads();
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kDown; ++i) all = max(all, shared[i][across]);
  return all;
}

// The grid of so many tiles; false where a launch has too few blocks of threads for it.
inline bool grid_of(std::int64_t down, std::int64_t across, dim3& grid) {
  const std::int64_t deep = divide_up(down, kMostDown);
  if (across > std::numeric_limits<std::int32_t>::max() || deep > kMostDown) return false;
  grid = dim3(static_cast<unsigned>(across), static_cast<unsigned>(std::min(down, kMostDown)),
              static_cast<unsigned>(deep));
  return true;
}

}  // namespace mxcheck_kernels::sm90
