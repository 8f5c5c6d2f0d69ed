#pragma once
// NVFP4 quantization of one direction, with or without a Hadamard transform before it and stochastic rounding. A block
// of 256 threads takes 16 rows of 1024 columns (tile.cuh).
//
// Layout: a thread has a block of 16 columns in each of four rows, and loads all before it looks at one; groups of the
// transform are one to eight blocks side by side. Compute: a butterfly in FP32 (transform.cuh), rounded to BF16 if that
// is asked; amax by integers, which keep NaN and Inf; scales; codes, two elements at a time (encode.cuh). Words:
// Philox, by bytes once for a block's 16 elements, twice where it begins at no multiple of 16, else once an element.
// Store: two words of eight codes a row; of scales a word of four blocks a row, by one lane of four for each of the
// four rows.
//
// With experts a block of threads has 16 rows of one, or padding after them, and its pointers are moved there
// (groups.h). Rows by index have a table of tiles too (gather.h): a thread reads the index of its four rows before it
// loads them. Kernels without experts are in quantize.cu, those of experts in groups_quantize.cu, and those of rows by
// index in gathered_quantize.cu.

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/choice.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/groups.h"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"
#include "kernels/sm90/nvfp4/transform.cuh"
#include "kernels/sm90/nvfp4/turns.cuh"

namespace mxcheck_kernels::sm90 {

enum class RowsOf : std::uint8_t { matrix, experts, index };

// The 16 rows of this number of all tiles, and 1024 columns. T: of x; To: of what is quantized, T or the transform's
// result; Rows: where rows of x are.
template <class T, class To, bool kSquare, Arithmetic kArithmetic, Rounding kRounding, class Rows>
__device__ __forceinline__ void quantize_tile(const Nvfp4Job& job, const Rows& rows, const Nvfp4Words& words,
                                              const PhiloxKeys& keys, const Nvfp4Transform& transform,
                                              std::int64_t tile_row) {
  // ---- load and transform
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const Place at = place_at(job, tile_row * kTileRows + down * kRowsOfThread,
                            static_cast<std::int64_t>(blockIdx.x) * kAcross + across);
  Block<T> raw[kRowsOfThread];
  if constexpr (std::is_same_v<Rows, RowsInOrder>) {
    load_blocks(job, at, raw);
  } else {
    load_blocks(job, rows, at, raw);
  }
  Block<To> x[kRowsOfThread];
  transform_blocks(transform, raw, x);

  // ---- scales
  constexpr bool kExact = kArithmetic == Arithmetic::exact;
  const float stored = __ldg(job.tensor_scale);
  const Nvfp4Outer outer = outer_of<kArithmetic>(job.recipe, stored);
  const Magnitudes m = magnitudes_of<kArithmetic != Arithmetic::floats>(x);
  if constexpr (kArithmetic == Arithmetic::choice) {
    if constexpr (kSquare) {
      __shared__ std::uint32_t shared[kDown][kAcross];
      __shared__ float errors[kDown][kAcross];
      const std::uint32_t amax = largest_of_rows(shared, m.largest_counting());
      return choose_square(job, at, outer, stored, SquareOfWarps{errors}, amax, down == 0, x);
    } else {
      return choose_rows_in_turn(job, at, outer, stored, x);
    }
  }
  Nvfp4Scale scales[kSquare ? 1 : kRowsOfThread];
  if constexpr (kSquare) {
    __shared__ std::uint32_t shared[kDown][kAcross];
    scale_square<kExact>(job, at, outer, largest_of_rows(shared, m.largest_counting()), down == 0, scales);
  } else {
    scale_rows<kExact>(job, at, outer, m, scales);
  }

  // ---- codes
  encode_blocks<kExact, kRounding>(job, at, words, keys, outer, scales, x, m);
}

// The job of a part of an expert's rows, which end before `end`: its numbers of rows are those of the table. Field by
// field: nvcc 13.0 drops the change of the first field of a copy of a __grid_constant__.
template <class T, bool kSquare>
__device__ __forceinline__ Nvfp4Job job_of_part(const Nvfp4Job& job, std::int64_t moved, std::int64_t end) {
  return {.x = static_cast<const T*>(job.x) + moved * job.stride,
          .stride = job.stride,
          .rows = end,
          .cols = job.cols,
          .blocks = job.blocks,
          .tensor_scale = job.tensor_scale,
          .codes = job.codes + moved * ((job.cols + 1) / 2),
          .scales = job.scales + (kSquare || job.tiled ? 0 : moved * job.blocks),
          .pad = job.pad,
          .tiled = job.tiled,
          .words = job.words,
          .vector = job.vector,
          .wide = job.wide,
          .recipe = job.recipe,
          .sixteen = job.sixteen,
          .tiny_code = job.tiny_code};
}

// Blocks of threads that a processor must have room for.
template <class T, class To, Arithmetic kArithmetic, Rounding kRounding>
inline constexpr int kResident = sizeof(T) == 4 || sizeof(To) == 4                                     ? 2
                                 : kArithmetic != Arithmetic::floats || kRounding != Rounding::nearest ? 3
                                                                                                       : 4;

template <RowsOf kRows, class T, class To, bool kSquare, Arithmetic kArithmetic, Rounding kRounding>
__global__ void __launch_bounds__(kThreads, kResident<T, To, kArithmetic, kRounding>)
    nvfp4_kernel(const __grid_constant__ Nvfp4Job job, const __grid_constant__ Nvfp4Words words,
                 const __grid_constant__ PhiloxKeys keys, const __grid_constant__ Nvfp4Transform transform,
                 const __grid_constant__ GroupTable groups) {
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  if constexpr (kRows != RowsOf::matrix) {
    if (tile_row >= groups.parts()) return;
    std::int64_t moved = 0, end = 0;
    if (!find_part(groups, tile_row, moved, end)) return;
    const Nvfp4Job own = job_of_part<T, kSquare>(job, moved, end);
    const Nvfp4Words own_words{.seed = words.seed,
                               .offset = words.offset + static_cast<std::uint64_t>(moved * job.cols),
                               .counter = {words.counter[0], words.counter[1]},
                               .bytes = words.bytes};
    quantize_tile<T, To, kSquare, kArithmetic, kRounding>(own, RowsInOrder{}, own_words, keys, transform, tile_row);
  } else {
    quantize_tile<T, To, kSquare, kArithmetic, kRounding>(job, RowsInOrder{}, words, keys, transform, tile_row);
  }
}

// A kernel of its own, so that the parameters of the others, on which their code depends, stay as they are.
template <class T, class To, bool kSquare, Arithmetic kArithmetic, Rounding kRounding>
__global__ void __launch_bounds__(kThreads, kResident<T, To, kArithmetic, kRounding>)
    nvfp4_gathered_kernel(const __grid_constant__ Nvfp4Job job, const __grid_constant__ Nvfp4Words words,
                          const __grid_constant__ PhiloxKeys keys, const __grid_constant__ Nvfp4Transform transform,
                          const __grid_constant__ GroupTable groups, const std::int32_t* __restrict__ index) {
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  if (tile_row >= groups.parts()) return;
  std::int64_t moved = 0, end = 0;
  if (!find_part(groups, tile_row, moved, end)) return;
  const Nvfp4Job own = job_of_part<T, kSquare>(job, moved, end);
  const Nvfp4Words own_words{.seed = words.seed,
                             .offset = words.offset + static_cast<std::uint64_t>(moved * job.cols),
                             .counter = {words.counter[0], words.counter[1]},
                             .bytes = words.bytes};
  const RowsByIndex rows{job.x, index + moved};
  quantize_tile<T, To, kSquare, kArithmetic, kRounding>(own, rows, own_words, keys, transform, tile_row);
}

struct Nvfp4Launch {
  Nvfp4Job job;
  Nvfp4OptionJob options;
  bool square = false;
  GroupTable groups;
  const std::int32_t* index = nullptr;
  dim3 grid;
  cudaStream_t stream = nullptr;
};

template <RowsOf kRows, class T, class To, bool kSquare, Arithmetic kArithmetic>
cudaError_t launch(const Nvfp4Launch& l) {
  const auto start = [&]<Rounding kRounding>(std::integral_constant<Rounding, kRounding>) {
    const PhiloxKeys keys = philox_keys(l.options.words.seed);
    const Nvfp4Transform transform = transform_of<T>(l.options);
    if constexpr (kRows == RowsOf::index) {
      nvfp4_gathered_kernel<T, To, kSquare, kArithmetic, kRounding>
          <<<l.grid, kThreads, 0, l.stream>>>(l.job, l.options.words, keys, transform, l.groups, l.index);
    } else {
      nvfp4_kernel<kRows, T, To, kSquare, kArithmetic, kRounding>
          <<<l.grid, kThreads, 0, l.stream>>>(l.job, l.options.words, keys, transform, l.groups);
    }
    return cudaGetLastError();
  };
  if constexpr (kArithmetic != Arithmetic::choice) {
    if (l.options.stochastic && l.options.words.bytes)
      return start(std::integral_constant<Rounding, Rounding::bytes>());
    if (l.options.stochastic) return start(std::integral_constant<Rounding, Rounding::words>());
  }
  return start(std::integral_constant<Rounding, Rounding::nearest>());
}

template <RowsOf kRows, class T, class To, bool kSquare>
cudaError_t launch(const Nvfp4Launch& l) {
  switch (arithmetic_of(l.job.recipe)) {
    case Arithmetic::exact: return launch<kRows, T, To, kSquare, Arithmetic::exact>(l);
    case Arithmetic::floats: return launch<kRows, T, To, kSquare, Arithmetic::floats>(l);
    case Arithmetic::choice: break;
  }
  return launch<kRows, T, To, kSquare, Arithmetic::choice>(l);
}

template <RowsOf kRows, class T, class To>
cudaError_t launch(const Nvfp4Launch& l) {
  return l.square ? launch<kRows, T, To, true>(l) : launch<kRows, T, To, false>(l);
}

// parts: tiles of 16 rows. INVALID_VALUE as quantize_nvfp4() says.
template <RowsOf kRows>
cudaError_t launch(Nvfp4Launch& l, Nvfp4Values values, std::int64_t parts) {
  if (!grid_of(parts, divide_up(l.job.cols, kTileCols), l.grid)) return cudaErrorInvalidValue;
  const bool is_bf16 = values == Nvfp4Values::bf16;
  const bool to_bf16 = l.options.group != 0 ? l.options.to_bf16 : is_bf16;
  if (is_bf16) {
    return to_bf16 ? launch<kRows, __nv_bfloat16, __nv_bfloat16>(l) : launch<kRows, __nv_bfloat16, float>(l);
  }
  return to_bf16 ? launch<kRows, float, __nv_bfloat16>(l) : launch<kRows, float, float>(l);
}

}  // namespace mxcheck_kernels::sm90
