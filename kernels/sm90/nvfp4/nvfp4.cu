// NVFP4 quantization. A block of 256 threads takes 16 rows of 512 columns, which are whole blocks of either shape.
//
// Layout: eight elements of a row are a thread's, 32 threads' lie side by side, so that a warp reads runs of 512 bytes
// (BF16) and writes runs of 128; two neighbours share a block of 16 columns. A thread has four rows, all of which it
// loads before it looks at one. Compute: amax by integers, which keep NaN and Inf; the scales of two rows by each of
// the two threads of a block, which exchange them; codes. Store: a word of eight codes a row; of scales a word of four
// blocks a row, by one lane for each of the four rows.

#include <algorithm>
#include <cstdint>
#include <limits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;                    // of a thread, in a row
constexpr int kRowsOfThread = 4;                // one after the other
constexpr int kTileCols = 512;                  // 64 threads
constexpr int kTileRows = 16;                   // four times four
constexpr int kAcross = kTileCols / kElements;  // threads side by side: two warps
constexpr int kTileBlocks = kTileCols / 16;     // in a row
constexpr unsigned kAllLanes = 0xFFFFFFFF;
constexpr std::int64_t kMostDown = 65535;  // blocks of threads in y and z
constexpr std::int64_t kScaleTileRows = 128;
constexpr std::int64_t kScaleTileBytes = 512;  // 128 x 4

static_assert(kThreads / kAcross * kRowsOfThread == kTileRows);
static_assert(kTileCols % 64 == 0);  // eight lanes, whose four scales are one word, never cross a tile's edge

__host__ __device__ constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

// Eight elements of a row, as they lie in memory.
template <class T>
struct Eight {
  static constexpr int kWords = 2 * static_cast<int>(sizeof(T));
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

template <class T, bool kSquare, bool kExact, bool kVector>
__global__ void __launch_bounds__(kThreads) nvfp4_kernel(const __grid_constant__ Nvfp4Job job) {
  // ---- layout
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int group = static_cast<int>(threadIdx.x) / kAcross;
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kTileCols + across * kElements;
  const std::int64_t first_row = tile_row * kTileRows + group * kRowsOfThread;

  // ---- load
  Eight<T> x[kRowsOfThread];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t row = first_row + r;
    x[r] = row < job.rows ? load_eight<T, kVector>(static_cast<const T*>(job.x) + row * job.stride, col, job.cols)
                          : Eight<T>{};
  }
  const Nvfp4Recipe recipe = kExact ? Nvfp4Recipe::exact : job.recipe;
  const Nvfp4Outer outer = outer_of(recipe, __ldg(job.tensor_scale));

  // ---- reduce
  std::uint32_t amax[kRowsOfThread];
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    amax[r] = largest(x[r]);
    if (!kExact && amax[r] > kInfinityBits) amax[r] = largest_number(x[r]);
  }
  Nvfp4Scale scales[kRowsOfThread];
  if constexpr (kSquare) {
    __shared__ std::uint32_t shared[kTileRows / kRowsOfThread][kTileBlocks];
    std::uint32_t bits = max(max(amax[0], amax[1]), max(amax[2], amax[3]));
    bits = max(bits, __shfl_xor_sync(kAllLanes, bits, 1));
    bits = largest_of_rows(shared, group, across / 2, bits);
    scales[0] = scale_of(recipe, outer, __uint_as_float(bits));
    const bool mine = group == 0 && across % 2 == 0 && col < job.cols && first_row < job.rows;
    if (mine) job.scales[tile_row * divide_up(job.cols, 16) + col / 16] = static_cast<std::uint8_t>(scales[0].byte);
  } else {
    scales_of_rows(recipe, outer, amax, scales);
    store_scales(job, first_row, col, scales);
  }

  // ---- compute and store
  const int count = static_cast<int>(min(static_cast<std::int64_t>(kElements), job.cols - col));
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const std::int64_t row = first_row + r;
    if (row >= job.rows) continue;
    const Nvfp4Scale& scale = scales[kSquare ? 0 : r];
    store_codes<kVector>(job, row, col, encode_eight<kExact>(recipe, outer, scale, x[r], count));
  }
}

template <class T, bool kSquare, bool kExact, bool kVector>
cudaError_t launch(const Nvfp4Job& job, cudaStream_t stream) {
  const std::int64_t rows = job.tiled ? divide_up(job.rows, kScaleTileRows) * kScaleTileRows : job.rows;
  const std::int64_t across = divide_up(job.cols, kTileCols);
  const std::int64_t down = divide_up(rows, kTileRows);
  if (across == 0 || down == 0) return cudaSuccess;
  const std::int64_t deep = divide_up(down, kMostDown);
  if (across > std::numeric_limits<std::int32_t>::max() || deep > kMostDown) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(std::min(down, kMostDown)),
                  static_cast<unsigned>(deep));
  nvfp4_kernel<T, kSquare, kExact, kVector><<<grid, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

template <class T, bool kSquare>
cudaError_t launch_values(const Nvfp4Job& job, bool vector, cudaStream_t stream) {
  const bool exact = job.recipe == Nvfp4Recipe::exact;
  if (vector) return exact ? launch<T, kSquare, true, true>(job, stream) : launch<T, kSquare, false, true>(job, stream);
  return exact ? launch<T, kSquare, true, false>(job, stream) : launch<T, kSquare, false, false>(job, stream);
}

}  // namespace

cudaError_t quantize_nvfp4(const Nvfp4Job& job, int block_rows, Nvfp4Values values, bool vector, cudaStream_t stream) {
  const bool square = block_rows != 1;
  if (values == Nvfp4Values::bf16) {
    return square ? launch_values<__nv_bfloat16, true>(job, vector, stream)
                  : launch_values<__nv_bfloat16, false>(job, vector, stream);
  }
  return square ? launch_values<float, true>(job, vector, stream) : launch_values<float, false>(job, vector, stream);
}

}  // namespace mxcheck_kernels::sm90
