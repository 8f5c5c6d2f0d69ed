#pragma once
// The tile of a block of threads that quantizes to NVFP4: who has which elements, and where codes and scales go; for
// the kernels of nvfp4.cu and options.cu. 256 threads take 16 rows of 512 columns, which are whole blocks of either
// shape: eight elements of a row are a thread's, 32 threads' lie side by side, two neighbours share a block of 16
// columns, and a thread has four rows.

#include <algorithm>
#include <cstdint>
#include <limits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"

namespace mxcheck_kernels::sm90 {

inline constexpr int kThreads = 256;
inline constexpr int kElements = 8;                    // of a thread, in a row
inline constexpr int kRowsOfThread = 4;                // one after the other
inline constexpr int kTileCols = 512;                  // 64 threads
inline constexpr int kTileRows = 16;                   // four times four
inline constexpr int kAcross = kTileCols / kElements;  // threads side by side: two warps
inline constexpr int kTileBlocks = kTileCols / 16;     // in a row
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;
inline constexpr std::int64_t kMostDown = 65535;  // blocks of threads in y and z
inline constexpr std::int64_t kScaleTileRows = 128;
inline constexpr std::int64_t kScaleTileBytes = 512;  // 128 x 4

static_assert(kThreads / kAcross * kRowsOfThread == kTileRows);
static_assert(kTileCols % 64 == 0);  // eight lanes, whose four scales are one word, never cross a tile's edge

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

// Eight elements of a row, as they lie in memory.
template <class T>
struct Eight {
  static inline constexpr int kWords = 2 * static_cast<int>(sizeof(T));
  std::uint32_t w[kWords];
};

__device__ __forceinline__ float element(const Eight<__nv_bfloat16>& e, int i) {
  const std::uint32_t word = e.w[i / 2];
  return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
}
__device__ __forceinline__ float element(const Eight<float>& e, int i) { return __uint_as_float(e.w[i]); }

template <class T, bool kVector>
__device__ __forceinline__ Eight<T> load_eight(const T* row, std::int64_t col, std::int64_t cols) {
  Eight<T> e{};
  if constexpr (kVector) {
    if (col >= cols) return e;
    const uint4* from = reinterpret_cast<const uint4*>(row + col);
#pragma unroll
    for (int i = 0; i < Eight<T>::kWords / 4; ++i) {
      const uint4 word = __ldcs(from + i);
      e.w[4 * i] = word.x, e.w[4 * i + 1] = word.y, e.w[4 * i + 2] = word.z, e.w[4 * i + 3] = word.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (col + i >= cols) continue;
      if constexpr (sizeof(T) == 2) {
        e.w[i / 2] |= static_cast<std::uint32_t>(__bfloat16_as_ushort(row[col + i])) << (i % 2 * 16);
      } else {
        e.w[i] = __float_as_uint(row[col + i]);
      }
    }
  }
  return e;
}

// FP32 bits of the largest magnitude, NaN and Inf included.
__device__ __forceinline__ std::uint32_t largest(const Eight<__nv_bfloat16>& e) {
  std::uint32_t two = e.w[0] & 0x7FFF7FFFU;
#pragma unroll
  for (int i = 1; i < 4; ++i) two = __vmaxu2(two, e.w[i] & 0x7FFF7FFFU);
  return max(two << 16, two & 0xFFFF0000U);
}
__device__ __forceinline__ std::uint32_t largest(const Eight<float>& e) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) bits = max(bits, e.w[i] & kMagnitude);
  return bits;
}

// The largest magnitude that is no NaN.
template <class T>
__device__ __forceinline__ std::uint32_t largest_number(const Eight<T>& e) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const std::uint32_t magnitude = __float_as_uint(element(e, i)) & kMagnitude;
    if (magnitude <= kInfinityBits) bits = max(bits, magnitude);
  }
  return bits;
}

// Codes, element i's in nibble i; elements from `count` on are not there.
template <bool kExact, class T>
__device__ __forceinline__ std::uint32_t encode_eight(Nvfp4Recipe recipe, const Nvfp4Outer& outer,
                                                      const Nvfp4Scale& scale, const Eight<T>& e, int count) {
  // A NaN is below nothing: it goes the slow way, as do elements beyond the fast one's range.
  const float amax = __uint_as_float(largest(e));
  bool fast = __fmul_rn(amax, scale.factor) < 7.0F && (!kExact || scale.factor != 0);
  std::uint32_t codes = 0;
  if (fast) {
    bool near = false;
#pragma unroll
    for (int i = kElements - 1; i >= 0; --i) {
      const float x = element(e, i);
      const float m = __fmul_rn(fabsf(x), scale.factor);
      const FastCode code = fast_code(m);
      if constexpr (kExact) near = near || is_near_midpoint(code, m);
      codes = __funnelshift_l(__float_as_uint(x), codes, 1) << 3 | bits_of(code);  // the sign, then the code
    }
    fast = !near;
  }
  if (!fast) {
    codes = 0;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (i < count) codes |= slow_code(recipe, outer.decode, scale.byte, scale.factor, element(e, i)) << (4 * i);
    }
  }
  return codes;
}

template <bool kVector>
__device__ __forceinline__ void store_codes(const Nvfp4Job& job, std::int64_t row, std::int64_t col,
                                            std::uint32_t codes) {
  const std::int64_t row_bytes = (job.cols + 1) / 2;
  std::uint8_t* to = job.codes + row * row_bytes + col / 2;
  if constexpr (kVector) {
    if (col < job.cols) __stcs(reinterpret_cast<std::uint32_t*>(to), codes);
  } else {
#pragma unroll
    for (int i = 0; i < kElements / 2; ++i) {
      if (col / 2 + i < row_bytes) to[i] = static_cast<std::uint8_t>(codes >> (8 * i));
    }
  }
}

// Even lanes find the scales of rows 0 and 1 of four, the odd lanes beside them those of rows 2 and 3.
template <class V>
__device__ __forceinline__ V of_own_row(const V (&rows)[kRowsOfThread], int row) {
  return threadIdx.x % 2 == 0 ? rows[row] : rows[row + 2];
}

// The scales of four rows, each from the maximum of this thread's elements.
__device__ __forceinline__ void scales_of_rows(Nvfp4Recipe recipe, const Nvfp4Outer& outer,
                                               const std::uint32_t (&amax)[kRowsOfThread],
                                               Nvfp4Scale (&scales)[kRowsOfThread]) {
  const bool even = threadIdx.x % 2 == 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const std::uint32_t beside = __shfl_xor_sync(kAllLanes, even ? amax[r + 2] : amax[r], 1);
    const Nvfp4Scale own = scale_of(recipe, outer, __uint_as_float(max(of_own_row(amax, r), beside)));
    Nvfp4Scale other;
    other.byte = __shfl_xor_sync(kAllLanes, own.byte, 1);
    other.factor = __uint_as_float(__shfl_xor_sync(kAllLanes, __float_as_uint(own.factor), 1));
    scales[r] = even ? own : other;
    scales[r + 2] = even ? other : own;
  }
}

// Byte r of the result in lanes 2 b of eight is byte b of the argument in lanes 2 r: of a word of four rows' scales of
// one block, a word of four blocks' scales of one row.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t word) {
  const std::uint32_t beside = __shfl_xor_sync(kAllLanes, word, 2);
  const std::uint32_t pair =
      (threadIdx.x & 2) == 0 ? __byte_perm(word, beside, 0x6240) : __byte_perm(word, beside, 0x3715);
  const std::uint32_t others = __shfl_xor_sync(kAllLanes, pair, 4);
  return (threadIdx.x & 4) == 0 ? __byte_perm(pair, others, 0x5410) : __byte_perm(pair, others, 0x3276);
}

// Four scales of each of four rows. Rows and columns that belong to no block get the padding, in tiles.
__device__ __forceinline__ void store_scales(const Nvfp4Job& job, std::int64_t first_row, std::int64_t col,
                                             const Nvfp4Scale (&scales)[kRowsOfThread]) {
  std::uint32_t word = 0;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const bool inside = first_row + r < job.rows && col < job.cols;
    word |= (inside ? scales[r].byte : job.pad) << (8 * r);
  }
  word = transposed(word);
  if (threadIdx.x % 2 != 0) return;
  const std::int64_t row = first_row + static_cast<int>(threadIdx.x) % 8 / 2;
  const std::int64_t first = col / 64 * 4;  // block
  const std::int64_t blocks = divide_up(job.cols, 16);
  std::uint8_t* to = nullptr;
  std::int64_t count = 4;
  if (job.tiled) {
    const std::int64_t tiles = divide_up(blocks, 4);
    if (first >= 4 * tiles || row >= divide_up(job.rows, kScaleTileRows) * kScaleTileRows) return;
    to = job.scales + (row / kScaleTileRows * tiles + first / 4) * kScaleTileBytes + row % 32 * 16 +
         row % kScaleTileRows / 32 * 4;
  } else {
    if (first >= blocks || row >= job.rows) return;
    to = job.scales + row * blocks + first;
    count = min(count, blocks - first);
  }
  if (job.words) {
    *reinterpret_cast<std::uint32_t*>(to) = word;
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(word >> (8 * i));
  }
}

// With blocks of 16 rows: the maxima of a block's columns, in threads of four warps, to that of the block.
__device__ __forceinline__ std::uint32_t largest_of_rows(
    std::uint32_t (&shared)[kTileRows / kRowsOfThread][kTileBlocks], int group, int block, std::uint32_t bits) {
  if (threadIdx.x % 2 == 0) shared[group][block] = bits;
  __syncthreads();
  std::uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kTileRows / kRowsOfThread; ++i) all = max(all, shared[i][block]);
  return all;
}

// The grid of a matrix; false where a launch has too few blocks of threads for it.
inline bool grid_of(const Nvfp4Job& job, dim3& grid) {
  const std::int64_t rows = job.tiled ? divide_up(job.rows, kScaleTileRows) * kScaleTileRows : job.rows;
  const std::int64_t across = divide_up(job.cols, kTileCols);
  const std::int64_t down = divide_up(rows, kTileRows);
  const std::int64_t deep = divide_up(down, kMostDown);
  if (across > std::numeric_limits<std::int32_t>::max() || deep > kMostDown) return false;
  grid = dim3(static_cast<unsigned>(across), static_cast<unsigned>(std::min(down, kMostDown)),
              static_cast<unsigned>(deep));
  return true;
}

}  // namespace mxcheck_kernels::sm90
