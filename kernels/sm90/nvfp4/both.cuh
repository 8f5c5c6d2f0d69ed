#pragma once
// Both directions of NVFP4 from one read. A block of 256 threads takes 128 x 128 elements: as rows from the registers
// that they were loaded to, and as columns from shared memory (places.cuh). Codes to nearest of squares without a
// transform are rounded once, if the tensor's scales of both directions are the same number (shared_codes.cuh).
//
// In either direction a warp has 16 rows (columns) by eight blocks, lane l block l % 8 of four rows from 4 * (l / 8)
// on; so eight lanes' codes are runs of 64 bytes, and the threads of a square are lanes 8 and 16 apart.

#include <algorithm>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/choice.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/places.cuh"
#include "kernels/sm90/nvfp4/shared_codes.cuh"
#include "kernels/sm90/nvfp4/tile.cuh"
#include "kernels/sm90/nvfp4/transform.cuh"
#include "kernels/sm90/ptx/ptx.cuh"

namespace mxcheck_kernels::sm90 {

// Starts to load a thread's four blocks to their places in shared memory; finish_load() waits for them. Elements that
// are not there become 0.
template <class T>
__device__ __forceinline__ void start_load(const Nvfp4Job& job, const Place& at, uint4* tile) {
  constexpr int kPieces = Block<T>::kWords / 4;
  constexpr int kInPiece = kElements / kPieces;
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int first = static_cast<int>(threadIdx.x) / kSideBlocks * kRowsOfThread;
  const T* const from = static_cast<const T*>(job.x) + at.row * job.stride + at.block * kElements;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    if (!job.vector) {
      const Block<T> x = r < at.rows ? load_block(from + r * job.stride, at.count, false) : Block<T>{};
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const std::uint32_t* w = x.w + 4 * i;
        tile[place_of_piece<sizeof(T)>(first, across * kPieces + i) + r * kRowPieces<sizeof(T)>] = make_uint4(w[0], w[1], w[2], w[3]);
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const bool is_there = r < at.rows && i * kInPiece < at.count;
      const void* piece = is_there ? from + r * job.stride + i * kInPiece : job.x;
      uint4* const to = tile + place_of_piece<sizeof(T)>(first, across * kPieces + i) + r * kRowPieces<sizeof(T)>;
      ptx::cp_async_16(static_cast<std::uint32_t>(__cvta_generic_to_shared(to)), piece, is_there ? 16 : 0);
    }
  }
  __pipeline_commit();
}
// A thread reads what it loaded itself before a barrier makes it every thread's.
__device__ __forceinline__ void finish_load() { __pipeline_wait_prior(0); }

template <class T>
__device__ __forceinline__ void read_rows(const uint4* tile, Block<T> (&x)[kRowsOfThread]) {
  constexpr int kPieces = Block<T>::kWords / 4;
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int first = static_cast<int>(threadIdx.x) / kSideBlocks * kRowsOfThread;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const uint4 piece = tile[place_of_piece<sizeof(T)>(first, across * kPieces + i) + r * kRowPieces<sizeof(T)>];
      std::uint32_t* w = x[r].w + 4 * i;
      w[0] = piece.x, w[1] = piece.y, w[2] = piece.z, w[3] = piece.w;
    }
  }
}

// 16 rows of four columns, as four rows of the transposed tile.
__device__ __forceinline__ void read_columns(const uint4* tile, Block<float> (&x)[kRowsOfThread]) {
  const int row = static_cast<int>(threadIdx.x) % kSideBlocks * kElements;
  const int piece = static_cast<int>(threadIdx.x) / kSideBlocks;  // four columns
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const uint4 four = tile[place_of_piece<4>(row, piece) + i * kRowPieces<4>];
    x[0].w[i] = four.x, x[1].w[i] = four.y, x[2].w[i] = four.z, x[3].w[i] = four.w;
  }
}
__device__ __forceinline__ void read_columns(const uint4* tile, Block<__nv_bfloat16> (&x)[kRowsOfThread]) {
  const int row = static_cast<int>(threadIdx.x) % kSideBlocks * kElements;
  const int pair = static_cast<int>(threadIdx.x) / kSideBlocks;  // half of a piece is four columns
  const auto four_of = [&](int i) {
    const auto* piece = reinterpret_cast<const uint2*>(tile + place_of_piece<2>(row, pair / 2) + i * kRowPieces<2>);
    return piece[pair % 2];
  };
#pragma unroll
  for (int i = 0; i < kElements / 2; ++i) {
    const uint2 upper = four_of(2 * i);
    const uint2 lower = four_of(2 * i + 1);
    x[0].w[i] = __byte_perm(upper.x, lower.x, 0x5410), x[1].w[i] = __byte_perm(upper.x, lower.x, 0x7632);
    x[2].w[i] = __byte_perm(upper.y, lower.y, 0x5410), x[3].w[i] = __byte_perm(upper.y, lower.y, 0x7632);
  }
}

// The most of the lanes of a square.
__device__ __forceinline__ std::uint32_t largest_of_square(std::uint32_t bits) {
  bits = max(bits, __shfl_xor_sync(kAllLanes, bits, kSideBlocks));
  return max(bits, __shfl_xor_sync(kAllLanes, bits, 2 * kSideBlocks));
}

struct Quantized {
  RowCodes codes;
  std::uint32_t byte = 0;  // the scale of the first row, or of all
};

// One direction of a tile.
template <Arithmetic kArithmetic, Rounding kRounding, class T>
__device__ __forceinline__ Quantized quantize_blocks(const Nvfp4Job& job, bool square, const Nvfp4Words& words,
                                                     const PhiloxKeys& keys, const Nvfp4Outer& outer, const Place& at,
                                                     const Block<T> (&x)[kRowsOfThread]) {
  constexpr bool kExact = kArithmetic == Arithmetic::exact;
  const Magnitudes m = magnitudes_of<kArithmetic != Arithmetic::floats>(x);
  const bool stores = threadIdx.x % 32 < kSideBlocks;  // the scale of a square
  if constexpr (kArithmetic == Arithmetic::choice) {
    const float stored = __ldg(job.tensor_scale);
    if (square) {
      choose_square(job, at, outer, stored, SquareOfLanes{}, largest_of_square(m.largest_counting()), stores, x);
    } else {
      choose_rows(job, at, outer, stored, x, m);
    }
    return {};
  }
  Nvfp4Scale scales[kRowsOfThread];
  if (square) {
    Nvfp4Scale one[1];
    scale_square<kExact>(job, at, outer, largest_of_square(m.largest_counting()), stores, one);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) scales[r] = one[0];
  } else {
    scale_rows<kExact>(job, at, outer, m, scales);
  }
  return {encode_blocks<kExact, kRounding>(job, at, words, keys, outer, scales, x, m), scales[0].byte};
}

struct Nvfp4BothJob {
  Nvfp4Job rows;
  Nvfp4Job columns;  // of the transposed matrix
  Nvfp4Words row_words;
  Nvfp4Words column_words;
  PhiloxKeys keys = {};
  Nvfp4Transform transform;  // of the columns
  bool square = false;
  std::int64_t across = 0;  // tiles side by side
  int run = 1;              // of a block of threads
};

// Codes and scales are the same in both directions. Under Four Over Six errors are added in another order.
template <Arithmetic kArithmetic, Rounding kRounding>
__device__ __forceinline__ bool is_shared(const Nvfp4BothJob& job) {
  if (kArithmetic == Arithmetic::choice || kRounding != Rounding::nearest || !job.square || job.transform.blocks != 0) return false;
  return __float_as_uint(__ldg(job.rows.tensor_scale)) == __float_as_uint(__ldg(job.columns.tensor_scale));
}

#ifndef V_BUFFERS  // TEMPORARY
#define V_BUFFERS 2
#define V_RUN 8
#define V_BLOCKS 3
#endif
// Tiles in shared memory: while one is quantized, the next is loaded.
template <class T>
inline constexpr int kTileBuffers = sizeof(T) == 4 ? 1 : V_BUFFERS;
template <class T>
inline constexpr int kTilePieces = kRowPieces<sizeof(T)> * kSide;
// Behind them lie codes and scale bytes of squares that hold for both directions.
template <class T>
inline constexpr int kBothBytes = kTileBuffers<T> * kTilePieces<T> * 16 + kTileCodeBytes + kSideBlocks * kSideBlocks;

// T: of x; To: of the columns that are quantized, T or the transform's result. A block takes job.run tiles, one beside
// the other.
template <class T, class To, Arithmetic kArithmetic, Rounding kRounding>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 || sizeof(To) == 4 ? 2 : V_BLOCKS)
    nvfp4_both_kernel(const __grid_constant__ Nvfp4BothJob job) {
  extern __shared__ uint4 memory[];
  uint4* const kept_codes = memory + kTileBuffers<T> * kTilePieces<T>;
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int down = static_cast<int>(threadIdx.x) / kSideBlocks * kRowsOfThread;
  const bool shared = is_shared<kArithmetic, kRounding>(job);
#ifdef V_HOIST
  const Nvfp4Outer row_outer = outer_of<kArithmetic>(job.rows.recipe, __ldg(job.rows.tensor_scale));
  const Nvfp4Outer column_outer = outer_of<kArithmetic>(job.columns.recipe, __ldg(job.columns.tensor_scale));
#else
#define row_outer outer_of<kArithmetic>(job.rows.recipe, __ldg(job.rows.tensor_scale))
#define column_outer outer_of<kArithmetic>(job.columns.recipe, __ldg(job.columns.tensor_scale))
#endif
  const auto row_place = [&](std::int64_t tile_col) {
    return place_at(job.rows, tile_row * kSide + down, tile_col * kSideBlocks + across);
  };
  const std::int64_t first = std::int64_t{blockIdx.x} * job.run;
  const int tiles = static_cast<int>(min(std::int64_t{job.run}, job.across - first));
  start_load<T>(job.rows, row_place(first), memory);
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const std::int64_t tile_col = first + i;
    const uint4* const tile = memory + i % kTileBuffers<T> * kTilePieces<T>;
    finish_load();
    {  // ---- rows
      Block<T> x[kRowsOfThread];
      read_rows(tile, x);
      const Quantized q = quantize_blocks<kArithmetic, kRounding>(job.rows, job.square, job.row_words, job.keys, row_outer,
                                                             row_place(tile_col), x);
      if (shared) write_codes(kept_codes, q.codes, q.byte);
    }
    __syncthreads();
    if (i + 1 < tiles) {
      start_load<T>(job.rows, row_place(tile_col + 1), memory + (i + 1) % kTileBuffers<T> * kTilePieces<T>);
    }
    // ---- columns
    const Place at = place_at(job.columns, tile_col * kSide + down, tile_row * kSideBlocks + across);
    if (shared) {
      store_columns(job.columns, at, kept_codes);
      __syncthreads();
      continue;
    }
    Block<T> raw[kRowsOfThread];
    read_columns(tile, raw);
    Block<To> x[kRowsOfThread];
    transform_blocks(job.transform, raw, x);
    quantize_blocks<kArithmetic, kRounding>(job.columns, job.square, job.column_words, job.keys, column_outer, at, x);
  }
}

template <class T, class To, Arithmetic kArithmetic, Rounding kRounding>
cudaError_t launch_both(Nvfp4BothJob& job, cudaStream_t stream) {
  // Enough blocks for every processor come first.
  constexpr std::int64_t kMostTiles = kTileBuffers<T> == 1 ? 1 : V_RUN;
  constexpr std::int64_t kEnoughBlocks = 4 * 132 * 3;
  const std::int64_t deep = divide_up(job.rows.rows, kSide);
  job.across = divide_up(job.rows.cols, kSide);
  job.run = static_cast<int>(std::clamp<std::int64_t>(job.across * deep / kEnoughBlocks, 1, kMostTiles));
  dim3 grid;
  if (!grid_of(deep, divide_up(job.across, job.run), grid)) return cudaErrorInvalidValue;
  auto* kernel = nvfp4_both_kernel<T, To, kArithmetic, kRounding>;
  constexpr int kBytes = kBothBytes<T>;
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess)
    return e;
  kernel<<<grid, kThreads, kBytes, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
