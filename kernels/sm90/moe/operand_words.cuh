#pragma once
// Numbers of an operand in a thread's registers, in BF16, two neighbours of a row in a word: 16 of a row, or 16 rows of
// two columns.

#include <cstdint>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/layer/steps/words.cuh"

namespace mxcheck_kernels::sm90 {

inline constexpr int kSide = 16;

// Numbers of a line that has `rest` left.
__device__ __forceinline__ int line_count(std::int64_t rest) {
  return static_cast<int>(min(std::int64_t{kSide}, rest));
}

// Grids of tiles of rows: neighbouring blocks are beside each other in the same rows, so that what they read together
// are whole pages of memory.
inline constexpr std::int64_t kMostInGrid = 65535;
inline constexpr std::int64_t kMostAcross = 65535;  // blocks of threads beside each other
inline dim3 grid_of_tiles(std::int64_t tiles, std::int64_t across) {
  const std::int64_t down = tiles < kMostInGrid ? tiles : kMostInGrid;
  return dim3(static_cast<unsigned>(across), static_cast<unsigned>(down),
              static_cast<unsigned>((tiles + kMostInGrid - 1) / kMostInGrid));
}
__device__ __forceinline__ std::int64_t tile_of_block() {
  return blockIdx.z * kMostInGrid + static_cast<std::int64_t>(blockIdx.y);
}

using RowWords = std::uint32_t[kSide / 2];  // of a row
using PairWords = std::uint32_t[kSide];     // of two columns, beside each other
using LineValues = float[kSide];            // magnitudes of BF16

// An element of a job's matrix in x, of which row i of the matrix is row index[i].
template <class Job>
__device__ __forceinline__ const std::uint16_t* source_at(const Job& job, std::int64_t row, std::int64_t col) {
  const std::int64_t from = job.index == nullptr ? row : __ldg(job.index + row);
  return job.x + from * job.cols + col;
}

// Columns are a multiple of 8: a line has 8 elements or 16.
__device__ __forceinline__ void load_row(const std::uint16_t* from, int count, RowWords& words) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint4 v{0, 0, 0, 0};
    if (count > half * 8) v = __ldg(reinterpret_cast<const uint4*>(from) + half);
    words[4 * half] = v.x, words[4 * half + 1] = v.y, words[4 * half + 2] = v.z, words[4 * half + 3] = v.w;
  }
}
__device__ __forceinline__ void store_row(std::uint16_t* to, int count, const RowWords& words) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (count <= half * 8) return;
    const std::uint32_t* const w = words + 4 * half;
    reinterpret_cast<uint4*>(to)[half] = make_uint4(w[0], w[1], w[2], w[3]);
  }
}

__device__ __forceinline__ float lower_of(std::uint32_t two) { return float_of(two << 16); }
__device__ __forceinline__ float upper_of(std::uint32_t two) { return float_of(two & 0xFFFF0000); }

// Two magnitudes that BF16 holds, in a word.
__device__ __forceinline__ std::uint32_t packed(float lower, float upper) {
  return __byte_perm(bits_of(lower), bits_of(upper), 0x7632);
}

// The larger magnitudes of words, in both halves; NaN are above all numbers.
template <int kCount>
__device__ __forceinline__ std::uint32_t amax_of_pairs(const std::uint32_t (&words)[kCount]) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) amax = larger_halves(amax, words[i]);
  return amax;
}
__device__ __forceinline__ std::uint32_t amax_of_both(std::uint32_t two) { return larger_half(two) >> 16; }

// A matrix's amax, of all threads of the block; those without elements have 0. Most warps find a larger one there, and
// do not wait for their turn.
__device__ __forceinline__ void add_amax(std::uint32_t* to, std::uint32_t amax) {
  amax = __reduce_max_sync(kAllLanes, amax);
  if (threadIdx.x % 32 == 0 && amax > *static_cast<volatile std::uint32_t*>(to)) atomicMax(to, amax);
}

// Codes to values: the scale of each half, whose products are exact, and the signs of x.
__device__ __forceinline__ std::uint32_t value_of(std::uint32_t codes, std::uint32_t scales, std::uint32_t x) {
  return fma2(codes, scales, 0x80008000) | (x & 0x80008000);
}

}  // namespace mxcheck_kernels::sm90
