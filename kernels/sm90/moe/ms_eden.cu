// MS-EDEN in two kernels: the rotation with the amax of what it gives, and the values. A block of threads has a tile of
// 128 numbers along k, or fewer at a line's end, of 64 lines; a thread has a line of it. In shared memory the lines of
// a number are neighbours, so that threads read neighbouring words.

#include "kernels/sm90/moe/ms_eden.h"

#include <cstdint>
#include <limits>

#include "kernels/sm90/common/philox.cuh"
#include "kernels/sm90/layer/steps/columns.cuh"
#include "kernels/sm90/moe/ms_eden_values.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kLines = 64;
constexpr int kPitch = kLines + 1;  // odd: the numbers of a line too are in different banks
constexpr std::int64_t kMostTiles = std::numeric_limits<std::int32_t>::max();

// A tile of the matrix: `count` numbers along k of `lines` lines, from an element on.
struct EdenTile {
  std::int64_t row = 0;
  std::int64_t col = 0;
  int count = 0;
  int lines = 0;
};

// blockIdx.x is a tile of rows, blockIdx.y one across.
template <bool kDown>
__device__ __forceinline__ bool find_eden_tile(const MsEdenJob& job, EdenTile& tile) {
  RowTile rows;
  if (!find_tile(job.rows, blockIdx.x, kTileRows, rows)) return false;
  if constexpr (kDown) {
    tile.row = rows.first, tile.count = rows.rows;
    tile.col = std::int64_t{blockIdx.y} * kLines;
    tile.lines = static_cast<int>(min(std::int64_t{kLines}, job.cols - tile.col));
  } else {
    constexpr int kParts = kTileRows / kLines;
    const int first = static_cast<int>(blockIdx.y) % kParts * kLines;
    if (first >= rows.rows) return false;
    tile.row = rows.first + first, tile.lines = min(kLines, rows.rows - first);
    tile.col = std::int64_t{blockIdx.y} / kParts * kEdenPiece;
    tile.count = static_cast<int>(min(std::int64_t{kEdenPiece}, job.cols - tile.col));
  }
  return true;
}

// Element (row, col) of the tile is number k of a line.
struct EdenPlace {
  std::int64_t row;
  std::int64_t col;
  int at;  // in shared memory
};
template <bool kDown>
__device__ __forceinline__ EdenPlace place_of(const EdenTile& tile, int i) {
  const int across = kDown ? tile.lines : tile.count;
  const int r = i / across;
  const int c = i % across;
  const int k = kDown ? r : c;
  const int line = kDown ? c : r;
  return {tile.row + r, tile.col + c, k * kPitch + line};
}

__device__ __forceinline__ float source_value(const MsEdenJob& job, const EdenPlace& p) {
  const std::int64_t row = job.index == nullptr ? p.row : __ldg(job.index + p.row);
  const float x = float_of(static_cast<std::uint32_t>(__ldg(job.x + row * job.cols + p.col)) << 16);
  if (job.x_amax == nullptr) return x;
  // The product of two significands of 8 and 24 bits is exact, and no quotient lies so near the middle of two FP32
  // numbers that its rounding to FP64 matters.
  const double amax = static_cast<double>(float_of(*job.x_amax << 16));
  return nearest_float(static_cast<double>(x) * amax / static_cast<double>(job.x_unit));
}

__device__ __forceinline__ std::uint32_t finite_amax(std::uint32_t word) {
  const std::uint32_t magnitude = word & 0x7FFF;
  return magnitude < kInfinityBf16 ? magnitude : 0;
}

template <bool kDown>
__global__ void __launch_bounds__(kLines) rotate_lines(const __grid_constant__ MsEdenJob job) {
  __shared__ float numbers[kEdenPiece * kPitch];
  __shared__ std::uint32_t signs[4];
  EdenTile tile;
  if (!find_eden_tile<kDown>(job, tile)) return;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 4)
    signs[thread] = philox_word(job.random.seed, static_cast<std::uint32_t>(thread), 0, job.signs, job.random.step);
  const int elements = tile.count * tile.lines;
  for (int i = thread; i < elements; i += kLines) {
    const EdenPlace p = place_of<kDown>(tile, i);
    numbers[p.at] = source_value(job, p);
  }
  __syncthreads();
  if (thread < tile.lines) rotate_piece(numbers + thread, kPitch, tile.count, signs);
  __syncthreads();
  std::uint32_t amax = 0;
  for (int i = thread; i < elements; i += kLines) {
    const EdenPlace p = place_of<kDown>(tile, i);
    const std::uint32_t word = to_bf16x2(numbers[p.at], 0) & 0xFFFF;
    job.rotated[p.row * job.cols + p.col] = static_cast<std::uint16_t>(word);
    amax = max(amax, finite_amax(word));
  }
  amax = __reduce_max_sync(0xFFFFFFFF, amax);
  if (thread % 32 == 0 && amax > *static_cast<volatile std::uint32_t*>(job.amax)) atomicMax(job.amax, amax);
}

template <bool kDown>
__global__ void __launch_bounds__(kLines) quantize_lines(const __grid_constant__ MsEdenJob job) {
  __shared__ std::uint32_t words[kEdenPiece * kPitch];
  EdenTile tile;
  if (!find_eden_tile<kDown>(job, tile)) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int elements = tile.count * tile.lines;
  for (int i = thread; i < elements; i += kLines) {
    const EdenPlace p = place_of<kDown>(tile, i);
    words[p.at] = __ldg(job.rotated + p.row * job.cols + p.col);
  }
  __syncthreads();
  if (thread < tile.lines) {
    const auto word = [&](int k) {
      const std::int64_t row = tile.row + (kDown ? k : thread);
      const std::int64_t col = tile.col + (kDown ? thread : k);
      const auto element = static_cast<std::uint64_t>(row * job.cols + col);
      return philox_word(job.random.seed, static_cast<std::uint32_t>(element),
                         static_cast<std::uint32_t>(element >> 32), job.random.stream, job.random.step);
    };
    quantize_piece(EdenWords{words + thread, kPitch}, tile.count, eden_scale_of(*job.amax), word);
  }
  __syncthreads();
  for (int i = thread; i < elements; i += kLines) {
    const EdenPlace p = place_of<kDown>(tile, i);
    job.values[p.row * job.cols + p.col] = static_cast<std::uint16_t>(words[p.at]);
  }
}

constexpr std::int64_t parts_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

}  // namespace

cudaError_t launch_ms_eden(const MsEdenJob& job, cudaStream_t stream) {
  if (const cudaError_t e = cudaMemsetAsync(job.amax, 0, sizeof(*job.amax), stream); e != cudaSuccess) return e;
  if (job.rows.rows == 0 || job.cols == 0) return cudaSuccess;
  constexpr std::int64_t kMostAcross = 65535;
  const std::int64_t tiles = job.rows.table != nullptr ? job.rows.tiles : parts_of(job.rows.rows, kTileRows);
  const std::int64_t across =
      job.down_columns ? parts_of(job.cols, kLines) : parts_of(job.cols, kEdenPiece) * (kTileRows / kLines);
  if (tiles == 0) return cudaSuccess;
  if (tiles > kMostTiles || across > kMostAcross) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(across));
  if (job.down_columns) {
    rotate_lines<true><<<grid, kLines, 0, stream>>>(job);
    quantize_lines<true><<<grid, kLines, 0, stream>>>(job);
  } else {
    rotate_lines<false><<<grid, kLines, 0, stream>>>(job);
    quantize_lines<false><<<grid, kLines, 0, stream>>>(job);
  }
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
