// NVFP4 quantization. A block of 256 threads takes 16 rows of 512 columns (tile.cuh).
//
// Layout: a warp reads runs of 512 bytes (BF16) and writes runs of 128; a thread loads its four rows before it looks at
// one. Compute: amax by integers, which keep NaN and Inf; the scales of two rows by each of the two threads of a block,
// which exchange them; codes. Store: a word of eight codes a row; of scales a word of four blocks a row, by one lane
// for each of the four rows.

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/levels.cuh"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/tile.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

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
  if (job.cols == 0 || job.rows == 0) return cudaSuccess;
  dim3 grid;
  if (!grid_of(job, grid)) return cudaErrorInvalidValue;
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
