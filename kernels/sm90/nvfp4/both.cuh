#pragma once
// Both directions of NVFP4 from one read. A block of 256 threads takes 128 x 128 elements: as rows from the registers
// that they were loaded to, and as columns from shared memory (places.cuh). Codes to nearest of squares without a
// transform are rounded once, if the tensor's scales of both directions are the same number (shared_codes.cuh).
//
// In either direction a warp has 16 rows (columns) by eight blocks, lane l block l % 8 of four rows from 4 * (l / 8)
// on; so eight lanes' codes are runs of 64 bytes, and the threads of a square are lanes 8 and 16 apart.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/places.cuh"
#include "kernels/sm90/nvfp4/shared_codes.cuh"
#include "kernels/sm90/nvfp4/tile.cuh"
#include "kernels/sm90/nvfp4/transform.cuh"
#include "kernels/sm90/nvfp4/turns.cuh"

namespace mxcheck_kernels::sm90 {

template <class T>
__device__ __forceinline__ void write_rows(uint4* tile, const Block<T> (&x)[kRowsOfThread]) {
  constexpr int kPieces = Block<T>::kWords / 4;
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int first = static_cast<int>(threadIdx.x) / kSideBlocks * kRowsOfThread;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const std::uint32_t* w = x[r].w + 4 * i;
      tile[place_of_piece<sizeof(T)>(first, across * kPieces + i) + r * kRowPieces<sizeof(T)>] =
          make_uint4(w[0], w[1], w[2], w[3]);
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
                                                     const PhiloxKeys& keys, const Place& at,
                                                     const Block<T> (&x)[kRowsOfThread]) {
  constexpr bool kExact = kArithmetic == Arithmetic::exact;
  const float stored = __ldg(job.tensor_scale);
  const Nvfp4Outer outer = outer_of<kArithmetic>(job.recipe, stored);
  const Magnitudes m = magnitudes_of<kArithmetic != Arithmetic::floats>(x);
  const bool stores = threadIdx.x % 32 < kSideBlocks;  // the scale of a square
  if constexpr (kArithmetic == Arithmetic::choice) {
    if (square) {
      choose_square_in_turn(job, at, outer, stored, SquareOfLanes{}, largest_of_square(m.largest_counting()), stores,
                            x);
    } else {
      choose_rows_in_turn(job, at, outer, stored, x);
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
};

// Codes and scales are the same in both directions. Under Four Over Six errors are added in another order.
template <Arithmetic kArithmetic, Rounding kRounding>
__device__ __forceinline__ bool is_shared(const Nvfp4BothJob& job) {
  if (kArithmetic == Arithmetic::choice || kRounding != Rounding::nearest || !job.square || job.transform.blocks != 0)
    return false;
  return __float_as_uint(__ldg(job.rows.tensor_scale)) == __float_as_uint(__ldg(job.columns.tensor_scale));
}

// T: of x; To: of the columns that are quantized, T or the transform's result.
template <class T, class To, Arithmetic kArithmetic, Rounding kRounding>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 || sizeof(To) == 4 ? 2 : 3)
    nvfp4_both_kernel(const __grid_constant__ Nvfp4BothJob job) {
  extern __shared__ uint4 tile[];
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  const int across = static_cast<int>(threadIdx.x) % kSideBlocks;
  const int down = static_cast<int>(threadIdx.x) / kSideBlocks * kRowsOfThread;
  const bool shared = is_shared<kArithmetic, kRounding>(job);
  {  // ---- rows
    const Place at = place_at(job.rows, tile_row * kSide + down, std::int64_t{blockIdx.x} * kSideBlocks + across);
    Block<T> x[kRowsOfThread];
    load_blocks(job.rows, at, x);
    if (!shared) write_rows(tile, x);
    const Quantized q = quantize_blocks<kArithmetic, kRounding>(job.rows, job.square, job.row_words, job.keys, at, x);
    if (shared) write_codes(tile, q.codes, q.byte);
  }
  __syncthreads();
  const Place at = place_at(job.columns, std::int64_t{blockIdx.x} * kSide + down, tile_row * kSideBlocks + across);
  if (shared) {
    store_columns(job.columns, at, tile);
    return;
  }
  // ---- columns
  Block<T> raw[kRowsOfThread];
  read_columns(tile, raw);
  Block<To> x[kRowsOfThread];
  transform_blocks(job.transform, raw, x);
  quantize_blocks<kArithmetic, kRounding>(job.columns, job.square, job.column_words, job.keys, at, x);
}

template <class T, class To, Arithmetic kArithmetic, Rounding kRounding>
cudaError_t launch_both(const Nvfp4BothJob& job, cudaStream_t stream) {
  dim3 grid;
  if (!grid_of(divide_up(job.rows.rows, kSide), divide_up(job.rows.cols, kSide), grid)) return cudaErrorInvalidValue;
  auto* kernel = nvfp4_both_kernel<T, To, kArithmetic, kRounding>;
  constexpr int kBytes = kRowPieces<sizeof(T)> * 16 * kSide;  // more than codes and their scales take
  if (const auto e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      e != cudaSuccess)
    return e;
  kernel<<<grid, kThreads, kBytes, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
