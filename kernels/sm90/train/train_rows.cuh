#pragma once
// Shared by the kernels of a training step: FP32 operations that are never contracted, BF16, pairwise sums by one warp,
// launches of a warp a row, and rows in a warp's registers. docs/training.md says where each rounding is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/route/router_math.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float div(float a, float b) { return __fdiv_rn(a, b); }

__device__ __forceinline__ float widen(std::uint16_t bf16) { return __uint_as_float(std::uint32_t{bf16} << 16); }
// Nearest, ties to even; a NaN becomes 0x7FFF (PTX ISA, "cvt").
__device__ __forceinline__ std::uint16_t to_bf16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }

// exp(x) of x <= 0; a NaN stays one.
__device__ __forceinline__ float exp_or_nan(float x) { return x == x ? exp_rn(x) : x; }

// The numbers a pairwise sum of `count` has once it is filled up with +0.
__host__ __device__ constexpr int padded_count(int count) {
  int width = 1;
  while (width < count) width *= 2;
  return width;
}

// Neighbours, then neighbours of those: the lanes below `width`, a power of two. All lanes have the sum.
__device__ __forceinline__ float pairwise_sum_of_lanes(float x, int width) {
  for (int step = 1; step < width; step *= 2) x = add(x, __shfl_xor_sync(kAllLanes, x, step));
  return __shfl_sync(kAllLanes, x, 0);
}

// The pairwise sum of `count` numbers in shared memory, which has room for padded_count(count) and is overwritten. By
// one warp; what its lanes wrote before is seen.
__device__ inline float pairwise_sum_of(float* v, int count, int lane) {
  int width = padded_count(count);
  for (int i = count + lane; i < width; i += 32) v[i] = 0;
  __syncwarp();
  // A round reads up to 2 i + 1 >= i: none of what a later round reads is overwritten.
  for (; width > 32; width /= 2) {
    for (int i = lane; i < width / 2; i += 32) {
      const float sum = add(v[2 * i], v[2 * i + 1]);
      __syncwarp();
      v[i] = sum;
    }
    __syncwarp();
  }
  const float last = lane < width ? v[lane] : 0.0F;
  __syncwarp();
  return pairwise_sum_of_lanes(last, width);
}

// The largest of a warp's; a NaN is left out.
__device__ __forceinline__ float largest_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

// ---- Launches ----

// Launches of kernels that give each row of a matrix to one warp, with shared memory for a row.
inline constexpr int kMostRowShared = 48 << 10;  // without asking the device for more
inline constexpr int kMostRowWarps = 8;
inline constexpr int kMostRowFloats = kMostRowShared / 4;

struct RowLaunch {
  unsigned blocks = 0;
  unsigned threads = 0;
  std::size_t shared = 0;
};

// floats: of a row, at most kMostRowFloats.
inline RowLaunch row_launch(std::int64_t rows, int floats) {
  const int bytes = std::max(floats, 1) * 4;
  const int warps = std::clamp(kMostRowShared / bytes, 1, kMostRowWarps);
  return {static_cast<unsigned>((rows + warps - 1) / warps), static_cast<unsigned>(warps * 32),
          static_cast<std::size_t>(warps) * static_cast<std::size_t>(bytes)};
}

// For kernels of one thread an element.
inline constexpr unsigned kElementThreads = 256;
inline unsigned element_blocks(std::int64_t elements) {
  return static_cast<unsigned>((elements + kElementThreads - 1) / kElementThreads);
}

// ---- Rows in registers ----
//
// A row of a matrix in the registers of one warp, for rows of a multiple of 8 columns. Column 128 c + 4 l + i is number
// i of lane l's chunk c, so that loads and stores are of 4 columns, and the rounds of a pairwise sum are within a lane,
// then between lanes, then between chunks. Of the longest rows (norms of more than 1,024 columns, gradients of scores
// of more than 1,024) some are in local memory: right, and slow.

inline constexpr int kChunk = 128;
inline constexpr unsigned kRowThreads = 256;  // of a block: a warp a row

struct alignas(8) FourBf16 {
  std::uint16_t v[4];
};
struct alignas(16) FourFloats {
  float v[4];
};
__device__ __forceinline__ FourBf16 four_bf16(const std::uint16_t* from) {
  return *reinterpret_cast<const FourBf16*>(from);
}
__device__ __forceinline__ FourFloats four_floats(const float* from) {
  return *reinterpret_cast<const FourFloats*>(from);
}
__device__ __forceinline__ void store(std::uint16_t* to, const FourBf16& v) { *reinterpret_cast<FourBf16*>(to) = v; }
__device__ __forceinline__ void store(float* to, const FourFloats& v) { *reinterpret_cast<FourFloats*>(to) = v; }

// The pairwise sum of value(c, i) of the first `columns`; value is +0 for the others. All lanes have it.
template <int kChunks, class Value>
__device__ __forceinline__ float row_sum(int columns, const Value& value) {
  const int width = padded_count(columns);
  float of[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    float sum = value(c, 0);
    if (width > 1) sum = add(sum, value(c, 1));
    if (width > 2) sum = add(sum, add(value(c, 2), value(c, 3)));
    if (c == 0 || kChunk * c < width) {
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        if (4 * step < width) sum = add(sum, __shfl_xor_sync(kAllLanes, sum, step));
      }
    }
    of[c] = sum;
  }
#pragma unroll
  for (int step = 1; step < kChunks; step *= 2) {
    if (kChunk * step < width) {
#pragma unroll
      for (int c = 0; c < kChunks; c += 2 * step) of[c] = add(of[c], of[c + step]);
    }
  }
  return __shfl_sync(kAllLanes, of[0], 0);
}

inline unsigned row_blocks(std::int64_t rows) {
  return static_cast<unsigned>((rows * 32 + kRowThreads - 1) / kRowThreads);
}

// Calls launch with the number of chunks to compile for, a constant: the least of 2, 8 and kMost that holds `columns`.
template <int kMost, class Launch>
cudaError_t for_chunks_of(int columns, const Launch& launch) {
  static_assert(kMost >= 8);
  if (columns <= 2 * kChunk) {
    launch(std::integral_constant<int, 2>{});
  } else if (columns <= 8 * kChunk) {
    launch(std::integral_constant<int, 8>{});
  } else {
    launch(std::integral_constant<int, kMost>{});
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
