// Rows, gathered by an index or not, to codes along tokens.

#include "kernels/sm90/layer/columns.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kWarpRows = kTileRows / kTileWarps;
constexpr int kPitch = kTileCols + 1;

template <class T>
__device__ __forceinline__ float fp32_of(T x) {
  if constexpr (sizeof(T) == 2) {
    return __uint_as_float(static_cast<std::uint32_t>(x) << 16);
  } else {
    return x;
  }
}

// T: BF16 words, or floats.
template <class T, bool kVector>
__global__ void __launch_bounds__(kTileThreads)
    transpose_tiles(const __grid_constant__ TransposeJob job, std::int64_t columns) {
  __shared__ float values[kTileRows * kPitch];
  __shared__ ColumnShared shared;
  RowTile tile;
  if (!find_tile(job.rows, blockIdx.x / columns, job.out.coding.block, tile)) return;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) % columns * kTileCols;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const T* const x = static_cast<const T*>(job.x);
  // Of lanes 0 to 15 the source of the warp's rows.
  std::int32_t source = tile.first + first + lane % kWarpRows;
  const bool real = first + lane % kWarpRows < tile.rows;
  if (job.index != nullptr && real) source = __ldg(job.index + source);
  const std::int64_t at = col + 2 * lane;
  float2 v[kWarpRows];
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    const std::int64_t row = __shfl_sync(kAllLanes, source, r);
    const T* const from = x + row * job.stride + at;
    v[r] = make_float2(0, 0);
    if (first + r >= tile.rows) continue;
    if constexpr (kVector) {
      if (at + 1 < job.cols) {
        if constexpr (sizeof(T) == 2) {
          const std::uint32_t word = __ldg(reinterpret_cast<const std::uint32_t*>(from));
          v[r] = make_float2(low_half(word), high_half(word));
        } else {
          v[r] = __ldg(reinterpret_cast<const float2*>(from));
        }
        continue;
      }
    }
    if (at < job.cols) v[r].x = fp32_of(from[0]);
    if (at + 1 < job.cols) v[r].y = fp32_of(from[1]);
  }
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    values[(first + r) * kPitch + 2 * lane] = v[r].x;
    values[(first + r) * kPitch + 2 * lane + 1] = v[r].y;
  }
  write_columns(job.out, tile, job.rows.rows, col, job.cols, shared,
                [&](int row, int column) { return values[row * kPitch + column]; });
}

template <class T>
cudaError_t launch(const TransposeJob& job, bool vector, cudaStream_t stream) {
  const std::int64_t columns = (job.cols + kTileCols - 1) / kTileCols;
  const std::int64_t blocks = job.rows.tiles * columns;
  if (blocks == 0) return cudaSuccess;
  if (vector) {
    transpose_tiles<T, true><<<static_cast<unsigned>(blocks), kTileThreads, 0, stream>>>(job, columns);
  } else {
    transpose_tiles<T, false><<<static_cast<unsigned>(blocks), kTileThreads, 0, stream>>>(job, columns);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_transpose(const TransposeJob& job, bool vector, cudaStream_t stream) {
  return job.dtype == Dtype::bf16 ? launch<std::uint16_t>(job, vector, stream) : launch<float>(job, vector, stream);
}

}  // namespace mxcheck_kernels::sm90
