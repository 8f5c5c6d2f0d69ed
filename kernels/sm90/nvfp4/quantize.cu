// NVFP4 quantization of one direction, with or without a Hadamard transform before it and stochastic rounding. A block
// of 256 threads takes 16 rows of 1024 columns (tile.cuh).
//
// Layout: a thread has a block of 16 columns in each of four rows, and loads all before it looks at one; groups of the
// transform are one to eight blocks side by side. Compute: a butterfly in FP32 (transform.cuh), rounded to BF16 if that
// is asked; amax by integers, which keep NaN and Inf; scales; codes, two elements at a time (encode.cuh). Words:
// Philox, by bytes once for a block's 16 elements, twice where it begins at no multiple of 16, else once an element.
// Store: two words of eight codes a row; of scales a word of four blocks a row, by one lane of four for each of the
// four rows.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/common/nvfp4/options.h"
#include "kernels/sm90/nvfp4/blocks.cuh"
#include "kernels/sm90/nvfp4/encode.cuh"
#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"
#include "kernels/sm90/nvfp4/transform.cuh"
#include "kernels/sm90/nvfp4/turns.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// T: of x; To: of what is quantized, T or the transform's result.
template <class T, class To, bool kSquare, Arithmetic kArithmetic, Rounding kRounding>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 || sizeof(To) == 4                                     ? 2
                                            : kArithmetic != Arithmetic::floats || kRounding != Rounding::nearest ? 3
                                                                                                                  : 4)
    nvfp4_kernel(const __grid_constant__ Nvfp4Job job, const __grid_constant__ Nvfp4Words words,
                 const __grid_constant__ PhiloxKeys keys, const __grid_constant__ Nvfp4Transform transform) {
  // ---- load and transform
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const std::int64_t tile_row = static_cast<std::int64_t>(blockIdx.z) * kMostDown + blockIdx.y;
  const Place at = place_at(job, tile_row * kTileRows + down * kRowsOfThread,
                            static_cast<std::int64_t>(blockIdx.x) * kAcross + across);
  Block<T> raw[kRowsOfThread];
  load_blocks(job, at, raw);
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
      return choose_square_in_turn(job, at, outer, stored, SquareOfWarps{errors}, amax, down == 0, x);
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

struct Launch {
  Nvfp4Job job;
  Nvfp4OptionJob options;
  bool square = false;
  dim3 grid;
  cudaStream_t stream = nullptr;
};

template <class T, class To, bool kSquare, Arithmetic kArithmetic>
cudaError_t launch(const Launch& l) {
  const auto start = [&](auto* kernel) {
    kernel<<<l.grid, kThreads, 0, l.stream>>>(l.job, l.options.words, philox_keys(l.options.words.seed),
                                              transform_of<T>(l.options));
    return cudaGetLastError();
  };
  if constexpr (kArithmetic != Arithmetic::choice) {
    if (l.options.stochastic && l.options.words.bytes)
      return start(nvfp4_kernel<T, To, kSquare, kArithmetic, Rounding::bytes>);
    if (l.options.stochastic) return start(nvfp4_kernel<T, To, kSquare, kArithmetic, Rounding::words>);
  }
  return start(nvfp4_kernel<T, To, kSquare, kArithmetic, Rounding::nearest>);
}

template <class T, class To, bool kSquare>
cudaError_t launch(const Launch& l) {
  switch (arithmetic_of(l.job.recipe)) {
    case Arithmetic::exact: return launch<T, To, kSquare, Arithmetic::exact>(l);
    case Arithmetic::floats: return launch<T, To, kSquare, Arithmetic::floats>(l);
    case Arithmetic::choice: break;
  }
  return launch<T, To, kSquare, Arithmetic::choice>(l);
}

template <class T, class To>
cudaError_t launch(const Launch& l) {
  return l.square ? launch<T, To, true>(l) : launch<T, To, false>(l);
}

}  // namespace

cudaError_t quantize_nvfp4(const Nvfp4Job& job, const Nvfp4OptionJob& options, int block_rows, Nvfp4Values values,
                           cudaStream_t stream) {
  if (job.cols == 0 || job.rows == 0) return cudaSuccess;
  Launch l{.job = job, .options = options, .square = block_rows != 1, .stream = stream};
  const std::int64_t rows = job.tiled ? divide_up(job.rows, kScaleTileRows) * kScaleTileRows : job.rows;
  if (!grid_of(divide_up(rows, kTileRows), divide_up(job.cols, kTileCols), l.grid)) return cudaErrorInvalidValue;
  const bool is_bf16 = values == Nvfp4Values::bf16;
  const bool to_bf16 = options.group != 0 ? options.to_bf16 : is_bf16;
  if (is_bf16) return to_bf16 ? launch<__nv_bfloat16, __nv_bfloat16>(l) : launch<__nv_bfloat16, float>(l);
  return to_bf16 ? launch<float, __nv_bfloat16>(l) : launch<float, float>(l);
}

}  // namespace mxcheck_kernels::sm90
