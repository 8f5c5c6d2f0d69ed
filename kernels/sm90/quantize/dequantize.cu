// Values are code times scale: one FP32 multiplication by a power of two, exact but for overflow to infinity, and for
// BF16 one rounding of that exact product.

#include <cuda_bf16.h>

#include "kernels/sm90/ptx/arithmetic.cuh"
#include "kernels/sm90/ptx/ptx.cuh"
#include "kernels/sm90/quantize/quantize.h"
#include "kernels/sm90/quantize/tile.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

template <class T, bool kVector>
__device__ __forceinline__ void store_values(T* at, float4 v, int count) {
  if constexpr (sizeof(T) == 2) {
    const uint2 words{ptx::cvt_rn_bf16x2_f32(v.x, v.y), ptx::cvt_rn_bf16x2_f32(v.z, v.w)};
    if constexpr (kVector) {
      ptx::st_global_no_allocate(at, words);
    } else {
      auto* bits = reinterpret_cast<std::uint16_t*>(at);
      for (int i = 0; i < count; ++i) bits[i] = static_cast<std::uint16_t>((i < 2 ? words.x : words.y) >> 16 * (i % 2));
    }
  } else if constexpr (kVector) {
    ptx::st_global_no_allocate(at, v);
  } else {
    const float values[4] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < count; ++i) at[i] = values[i];
  }
}

template <bool kVector>
__device__ __forceinline__ std::uint32_t load_codes(const std::uint8_t* at, int count) {
  if constexpr (kVector) return __ldcs(reinterpret_cast<const unsigned int*>(at));
  std::uint32_t codes = 0;
  for (int i = 0; i < count; ++i) codes |= std::uint32_t{at[i]} << 8 * i;
  return codes;
}

// The factors of a tile's 1 x kBlock blocks, by 128 threads: row i of the tile each.
template <int kBlock>
__device__ __forceinline__ void load_row_factors(const Place& p, const DequantizeJob& job, int i,
                                                 float (&factor)[4][kTile + 8]) {
  constexpr int kBlocks = kTile / kBlock;
  if (i >= p.tile.rows) return;
  const int inside = static_cast<int>(min(divide_up(p.cols - p.c * kTile, kBlock), std::int64_t{kBlocks}));
  const std::uint8_t* scales = job.scales + row_scale_offset<kBlock>(p, job.tiled, i, 0);
  if (kBlock == 32 && job.words) {
    const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(scales);
#pragma unroll
    for (int j = 0; j < 4; ++j) factor[j][i] = value_of(word >> 8 * j & 0xFF);
  } else {
    for (int j = 0; j < inside; ++j) factor[j][i] = value_of(scales[j]);
  }
}

template <class T, Element kElement, BlockKind kKind, int kBlock, bool kVector>
__global__ void __launch_bounds__(kThreads) dequantize_kernel(const __grid_constant__ DequantizeJob job) {
  __shared__ float row_factor[4][kTile + 8];  // padded for the banks
  Place p;
  p.t = blockIdx.x / static_cast<unsigned>(job.columns);
  p.c = blockIdx.x % static_cast<unsigned>(job.columns);
  p.columns = job.columns;
  p.cols = job.cols;
  if (!find_tile(job.rows, p.t, p.tile)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first = warp * kWarpRows;
  const int rows = min(max(p.tile.rows - first, 0), kWarpRows);
  const std::int64_t col = p.c * kTile + lane * 4;
  const int cols = static_cast<int>(min(max(p.cols - col, std::int64_t{0}), std::int64_t{4}));
  const std::int64_t start = (p.tile.first_row + first) * p.cols + col;

  std::uint32_t codes[kWarpRows];
  load_rows<kWarpRows, std::uint8_t>({job.codes, p.cols, nullptr}, p.tile.first_row + first, rows, col, cols > 0,
                                     [&](const std::uint8_t* at, int r) { codes[r] = load_codes<kVector>(at, cols); });
  float4 factor = {};  // column and square blocks: of the lane's columns
  if constexpr (kKind == BlockKind::row) {
    if (threadIdx.x < kTile) load_row_factors<kBlock>(p, job, static_cast<int>(threadIdx.x), row_factor);
    __syncthreads();
  }
  if (rows == 0 || cols == 0) return;
  const int band = kBlock == 32 ? warp / 2 : 0;
  if constexpr (kKind == BlockKind::column) {
    float* f = &factor.x;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < cols) f[i] = value_of(job.scales[column_scale_offset<kBlock>(p, job.tiled, lane * 4 + i, band)]);
    }
  } else if constexpr (kKind == BlockKind::square) {
    const std::int64_t at =
        kBlock == 32 ? (p.tile.bands + band) * divide_up(p.cols, 32) + p.c * 4 + lane / 8 : p.t * p.columns + p.c;
    const float f = value_of(job.scales[at]);
    factor = {f, f, f, f};
  }
  constexpr auto kWidth = static_cast<std::int64_t>(sizeof(T));
  store_rows<kWarpRows>(static_cast<std::uint8_t*>(job.y) + start * kWidth, p.cols * kWidth, rows, cols > 0,
                        [&](std::uint8_t* at, int r) {
                          if constexpr (kKind == BlockKind::row) {
                            const float f = row_factor[kBlock == 32 ? lane / 8 : 0][first + r];
                            factor = {f, f, f, f};
                          }
                          const float2 low = decode2<kElement>(codes[r] & 0xFFFF);
                          const float2 high = decode2<kElement>(codes[r] >> 16);
                          const float4 v{low.x * factor.x, low.y * factor.y, high.x * factor.z, high.y * factor.w};
                          store_values<T, kVector>(reinterpret_cast<T*>(at), v, cols);
                        });
}

template <class T, Element kElement, BlockKind kKind, int kBlock>
cudaError_t launch(const DequantizeJob& job, bool vector, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(job.rows.tiles * job.columns);
  if (vector) {
    dequantize_kernel<T, kElement, kKind, kBlock, true><<<grid, kThreads, 0, stream>>>(job);
  } else {
    dequantize_kernel<T, kElement, kKind, kBlock, false><<<grid, kThreads, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

template <BlockKind kKind, int kBlock>
cudaError_t launch(const DequantizeJob& job, Dtype dtype, Element element, bool vector, cudaStream_t stream) {
  if (dtype == Dtype::bf16) {
    if (element == Element::e4m3) return launch<__nv_bfloat16, Element::e4m3, kKind, kBlock>(job, vector, stream);
    return launch<__nv_bfloat16, Element::e5m2, kKind, kBlock>(job, vector, stream);
  }
  if (element == Element::e4m3) return launch<float, Element::e4m3, kKind, kBlock>(job, vector, stream);
  return launch<float, Element::e5m2, kKind, kBlock>(job, vector, stream);
}

template <BlockKind kKind>
cudaError_t launch(const DequantizeJob& job, int block, Dtype dtype, Element element, bool vector,
                   cudaStream_t stream) {
  if (block == 32) return launch<kKind, 32>(job, dtype, element, vector, stream);
  return launch<kKind, 128>(job, dtype, element, vector, stream);
}

}  // namespace

cudaError_t dequantize(const DequantizeJob& job, BlockKind kind, int block, Dtype dtype, Element element, bool vector,
                       cudaStream_t stream) {
  if (kind == BlockKind::row) return launch<BlockKind::row>(job, block, dtype, element, vector, stream);
  if (kind == BlockKind::column) return launch<BlockKind::column>(job, block, dtype, element, vector, stream);
  return launch<BlockKind::square>(job, block, dtype, element, vector, stream);
}

}  // namespace mxcheck_kernels::sm90
