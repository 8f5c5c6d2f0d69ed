#pragma once
// A row of a matrix in the registers of one warp, for rows of a multiple of 8 columns. Column 128 c + 4 l + i is number
// i of lane l's chunk c, so that loads and stores are of 4 columns, and the rounds of a pairwise sum are within a lane,
// then between lanes, then between chunks. Of the longest rows (norms of more than 1,024 columns, gradients of scores
// of more than 1,024) some are in local memory: right, and slow.

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "kernels/sm90/train/elementwise/numbers.cuh"

namespace mxcheck_kernels::sm90 {

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
