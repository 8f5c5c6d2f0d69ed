// NVFP4 codes to values. A block of 256 threads first makes the tables of all 256 scale bytes, a byte a thread, in
// shared memory (planes.h), and then takes tiles of 16 rows, one below the other.
//
// Layout: 16 bytes of values of a row are a thread's (eight of BF16, four of FP32), 64 threads' lie side by side, so
// that a warp writes runs of 512 bytes and reads runs of 128 (64); a thread has four rows, whose codes and scale bytes
// it loads before it decodes one. There are as many blocks as keep the card busy, no more, so that tables cost little.
// With experts a tile is a part of one's (groups.h).

#include <algorithm>
#include <cstdint>
#include <limits>

#include <cuda_runtime.h>

#include "kernels/sm90/nvfp4/groups.h"
#include "kernels/sm90/nvfp4/nvfp4.h"
#include "kernels/sm90/nvfp4/planes.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kValueThreads = 256;  // one for each scale byte
constexpr int kValueRows = 4;       // of a thread, one after the other
constexpr int kSideBySide = 64;
constexpr int kValueTileRows = kValueThreads / kSideBySide * kValueRows;
static_assert(kValueTileRows == kGroupRows);
constexpr std::int64_t kEnoughBlocks = 2048;
constexpr std::int64_t kMostDownY = 65535;  // blocks of threads in y

template <class T>
inline constexpr int kPerThread = 16 / static_cast<int>(sizeof(T));

// The codes of a thread's elements of a row, in the lowest bits.
template <class T, bool kVector>
__device__ __forceinline__ std::uint32_t load_codes(const std::uint8_t* row, std::int64_t col, std::int64_t cols) {
  const std::uint8_t* from = row + col / 2;
  if constexpr (kVector) {
    if (col >= cols) return 0;
    if constexpr (kPerThread<T> == 8) return __ldcs(reinterpret_cast<const std::uint32_t*>(from));
    return __ldcs(reinterpret_cast<const std::uint16_t*>(from));
  } else {
    std::uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < kPerThread<T> / 2; ++i) {
      if (col + 2 * i < cols) codes |= std::uint32_t{from[i]} << 8 * i;
    }
    return codes;
  }
}

__device__ __forceinline__ std::uint32_t load_scale(const Nvfp4ValuesJob& job, std::int64_t row, std::int64_t col) {
  const std::int64_t block = col / 16;
  if (!job.tiled) return __ldg(job.scales + row / job.block_rows * divide_up(job.cols, 16) + block);
  const std::int64_t tiles = divide_up(divide_up(job.cols, 16), 4);
  return __ldg(job.scales + (row / 128 * tiles + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4);
}

template <class T, bool kVector>
__device__ __forceinline__ void store_values(T* row, std::int64_t col, std::int64_t cols,
                                             const std::uint32_t (&values)[4]) {
  if constexpr (kVector) {
    if (col < cols) __stcs(reinterpret_cast<uint4*>(row + col), make_uint4(values[0], values[1], values[2], values[3]));
  } else {
    constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int i = 0; i < kPerThread<T>; ++i) {
      if (col + i < cols) row[col + i] = static_cast<T>(values[i / kInWord] >> i % kInWord * 16);
    }
  }
}

// A thread's four rows from `first` on.
template <class T, bool kVector>
__device__ __forceinline__ void decode_rows(const Nvfp4ValuesJob& job, const ValuePlanes<T>* tables, std::int64_t first,
                                            std::int64_t col) {
  const std::int64_t row_bytes = (job.cols + 1) / 2;
  // ---- load
  std::uint32_t codes[kValueRows];
  std::uint32_t bytes[kValueRows];
#pragma unroll
  for (int r = 0; r < kValueRows; ++r) {
    const std::int64_t row = min(first + r, job.rows - 1);
    codes[r] = load_codes<T, kVector>(job.codes + row * row_bytes, col, job.cols);
    bytes[r] = load_scale(job, row, col);
  }
  // ---- decode and store
#pragma unroll
  for (int r = 0; r < kValueRows; ++r) {
    if (first + r >= job.rows) break;
    std::uint32_t values[4];
    const ValuePlanes<T> planes = tables[bytes[r]];
    decode_codes(planes, codes[r], values);
    store_values<T, kVector>(static_cast<T*>(job.y) + (first + r) * job.cols, col, job.cols, values);
  }
}

// The job of a part of an expert's rows, which end before `end`: its numbers of rows are those of the table. Field by
// field: nvcc 13.0 drops the change of the first field of a copy of a __grid_constant__.
template <class T>
__device__ __forceinline__ Nvfp4ValuesJob job_of_part(const Nvfp4ValuesJob& job, std::int64_t moved, std::int64_t end) {
  const bool by_rows = !job.tiled && job.block_rows == 1;
  return {.codes = job.codes + moved * ((job.cols + 1) / 2),
          .scales = job.scales + (by_rows ? moved * divide_up(job.cols, 16) : 0),
          .tensor_scale = job.tensor_scale,
          .y = static_cast<T*>(job.y) + moved * job.cols,
          .rows = end,
          .cols = job.cols,
          .block_rows = job.block_rows,
          .tiled = job.tiled,
          .recipe = job.recipe};
}

template <bool kGrouped, class T, bool kVector>
__global__ void __launch_bounds__(kValueThreads)
    nvfp4_values_kernel(const __grid_constant__ Nvfp4ValuesJob job, const __grid_constant__ GroupTable groups) {
  // ---- tables
  __shared__ ValuePlanes<T> tables[kValueThreads];
  tables[threadIdx.x] = value_planes<T>(nvfp4_tensor_scale(job.recipe, __ldg(job.tensor_scale)), threadIdx.x);
  __syncthreads();

  const std::int64_t col = (std::int64_t{blockIdx.x} * kSideBySide + threadIdx.x % kSideBySide) * kPerThread<T>;
  if (col >= job.cols) return;
  const int row = static_cast<int>(threadIdx.x) / kSideBySide * kValueRows;
  if constexpr (kGrouped) {
    for (std::int64_t part = blockIdx.y; part < groups.parts(); part += gridDim.y) {
      std::int64_t moved = 0, end = 0;
      if (!find_part(groups, part, moved, end)) continue;
      const Nvfp4ValuesJob own = job_of_part<T>(job, moved, end);
      const std::int64_t first = part * kValueTileRows + row;
      if (first < own.rows) decode_rows<T, kVector>(own, tables, first, col);
    }
  } else {
    const std::int64_t step = std::int64_t{gridDim.y} * kValueTileRows;
    for (std::int64_t first = std::int64_t{blockIdx.y} * kValueTileRows + row; first < job.rows; first += step)
      decode_rows<T, kVector>(job, tables, first, col);
  }
}

// parts: tiles of 16 rows.
template <bool kGrouped, class T>
cudaError_t launch_of(const Nvfp4ValuesJob& job, bool vector, const GroupTable& groups, std::int64_t parts,
                      cudaStream_t stream) {
  const std::int64_t across = divide_up(job.cols, kSideBySide * kPerThread<T>);
  if (across == 0 || parts == 0) return cudaSuccess;
  if (across > std::numeric_limits<std::int32_t>::max()) return cudaErrorInvalidValue;
  const std::int64_t y = std::clamp<std::int64_t>(kEnoughBlocks / across, 1, std::min(parts, kMostDownY));
  const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(y));
  if (vector) {
    nvfp4_values_kernel<kGrouped, T, true><<<grid, kValueThreads, 0, stream>>>(job, groups);
  } else {
    nvfp4_values_kernel<kGrouped, T, false><<<grid, kValueThreads, 0, stream>>>(job, groups);
  }
  return cudaGetLastError();
}

template <bool kGrouped>
cudaError_t launch_of(const Nvfp4ValuesJob& job, Nvfp4Values values, bool vector, const GroupTable& groups,
                      std::int64_t parts, cudaStream_t stream) {
  return values == Nvfp4Values::bf16 ? launch_of<kGrouped, std::uint16_t>(job, vector, groups, parts, stream)
                                     : launch_of<kGrouped, std::uint32_t>(job, vector, groups, parts, stream);
}

}  // namespace

cudaError_t dequantize_nvfp4(const Nvfp4ValuesJob& job, Nvfp4Values values, bool vector, cudaStream_t stream) {
  return launch_of<false>(job, values, vector, {}, divide_up(job.rows, kValueTileRows), stream);
}

cudaError_t dequantize_nvfp4_groups(const Nvfp4ValuesJob& job, Nvfp4Values values, bool vector,
                                    const GroupTable& groups, cudaStream_t stream) {
  return launch_of<true>(job, values, vector, groups, groups.parts(), stream);
}

}  // namespace mxcheck_kernels::sm90
