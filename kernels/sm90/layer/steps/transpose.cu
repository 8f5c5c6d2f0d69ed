// Rows, gathered by an index or not, to codes along tokens.

#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/layer/steps/rows.cuh"
#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kWarpRows = kTileRows / kTileWarps;
constexpr int kLanesOfRow = kTileCols / kEach;
constexpr int kRowsAtOnce = 32 / kLanesOfRow;
constexpr int kLoads = kWarpRows / kRowsAtOnce;

// The source of a warp's rows, one a lane: lanes from 16 on have those of the lanes before.
__device__ __forceinline__ std::int32_t source_row(const TransposeJob& job, const RowTile& tile, int first, int lane) {
  const int local = min(first + lane % kWarpRows, tile.rows - 1);
  const std::int32_t row = tile.first + local;
  return job.index == nullptr ? row : __ldg(job.index + row);
}

// Eight columns of BF16 from `col` on, zeros past the end.
template <bool kVector>
__device__ __forceinline__ uint4 load_eight(const std::uint16_t* row, std::int64_t col, std::int64_t cols) {
  if constexpr (kVector) {
    return col < cols ? __ldg(reinterpret_cast<const uint4*>(row + col)) : uint4{};
  } else {
    std::uint32_t w[4] = {};
    for (int i = 0; i < kEach; ++i) {
      if (col + i < cols) w[i / 2] |= static_cast<std::uint32_t>(row[col + i]) << 16 * (i % 2);
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
  }
}

template <bool kVector, class Coder>
__global__ void __launch_bounds__(kTileThreads, 6)
    transpose_words(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder, unsigned columns) {
  __shared__ alignas(16) TileWords words;
  __shared__ ColumnShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x / columns, coder.block(), tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.x % columns} * kTileCols;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const auto* const x = static_cast<const std::uint16_t*>(job.x);
  const std::int32_t source = source_row(job, tile, first, lane);
  const int part = lane % kLanesOfRow;
  uint4 v[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int local = i * kRowsAtOnce + lane / kLanesOfRow;
    const std::int64_t row = __shfl_sync(kAllLanes, source, local);
    v[i] =
        first + local < tile.rows ? load_eight<kVector>(x + row * job.stride, col + part * kEach, job.cols) : uint4{};
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int local = first + i * kRowsAtOnce + lane / kLanesOfRow;
    *reinterpret_cast<uint4*>(words + word_at(local, part * (kEach / 2))) = v[i];
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  const ColumnPlace at{col, job.cols};
  encode_columns(job.out, coder, tile, at, thread, shared, words);
  __syncthreads();
  store_columns(job.out, tile, at, thread / 32, lane, shared);
}

// The same of FP32: a thread has a column and a quarter of the rows.
template <class Coder>
__global__ void __launch_bounds__(kTileThreads)
    transpose_floats(const __grid_constant__ TransposeJob job, const __grid_constant__ Coder coder, unsigned columns) {
  constexpr int kPitch = kTileCols + 1;
  __shared__ float values[kTileRows * kPitch];
  __shared__ ColumnShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x / columns, coder.block(), tile)) return;
  const std::int64_t col = std::int64_t{blockIdx.x % columns} * kTileCols;
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kTileCols;
  const int quarter = thread / kTileCols;
  for (int r = quarter; r < kTileRows; r += kQuarters) {
    float v = 0;
    if (r < tile.rows && col + column < job.cols) {
      const std::int64_t row = job.index == nullptr ? tile.first + r : __ldg(job.index + tile.first + r);
      v = static_cast<const float*>(job.x)[row * job.stride + col + column];
    }
    values[r * kPitch + column] = v;
  }
  __syncthreads();
  const float* const mine = values + quarter * kQuarter * kPitch + column;
  std::uint32_t amax = 0;
  for (int r = 0; r < kQuarter; ++r) amax = max(amax, __float_as_uint(mine[r * kPitch]) & 0x7FFFFFFF);
  shared.amax[quarter][column] = amax;
  __syncthreads();
  for (int q = 0; coder.block() == kTileRows && q < kQuarters; ++q) amax = max(amax, shared.amax[q][column]);
  const BlockScale scale = coder.scale_of(amax);
  if ((coder.block() == kQuarter || quarter == 0) && quarter * kQuarter < tile.rows && col + column < job.cols) {
    coder.store_scale(job.out.scales, (col + column) * job.out.bands + tile.band + quarter, scale);
  }
  for (int i = 0; i < kQuarter / 4; ++i) {
    const float* const x = mine + 4 * i * kPitch;
    shared.codes[column * kCodePitch + quarter * (kQuarter / 4) + i] =
        coder.codes(x[0], x[kPitch], x[2 * kPitch], x[3 * kPitch], scale);
  }
  __syncthreads();
  store_columns(job.out, tile, {col, job.cols}, thread / 32, thread % 32, shared);
}

}  // namespace

cudaError_t launch_transpose(const TransposeJob& given, bool vector, cudaStream_t stream) {
  TransposeJob job = given;
  job.out = with_stride(job.out, job.rows.rows);
  if (!is_padding_possible(job.out)) return cudaErrorInvalidValue;
  if (takes_wide(job, vector)) return launch_wide(job, stream);
  if (job.scales != nullptr) return launch_transpose_codes(job, vector, stream);
  const std::int64_t columns = (job.cols + kTileCols - 1) / kTileCols;
  const std::int64_t blocks = job.rows.tiles * columns;
  if (blocks == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(blocks);
  const auto across = static_cast<unsigned>(columns);
  return with_coder(job.out.coding, [&](auto coder) {
    if (job.dtype == Dtype::fp32) {
      transpose_floats<<<grid, kTileThreads, 0, stream>>>(job, coder, across);
    } else if (vector) {
      transpose_words<true><<<grid, kTileThreads, 0, stream>>>(job, coder, across);
    } else {
      transpose_words<false><<<grid, kTileThreads, 0, stream>>>(job, coder, across);
    }
    return cudaGetLastError();
  });
}

}  // namespace mxcheck_kernels::sm90
