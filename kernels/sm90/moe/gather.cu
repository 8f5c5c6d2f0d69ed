#include "kernels/sm90/moe/gather.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksEach = 4;  // of a processor
constexpr int kPartRows = 16;
constexpr int kParts = kTileRows / kPartRows;
constexpr int kAhead = 8;  // loads of 16 bytes a lane has on their way

// A warp's row, 16 bytes a lane at a time.
__device__ __forceinline__ void copy_row(const uint4* from, uint4* to, std::int64_t chunks, int lane) {
  for (std::int64_t first = lane; first < chunks; first += 32 * kAhead) {
    uint4 words[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + 32 * i < chunks) words[i] = __ldg(from + first + 32 * i);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + 32 * i < chunks) __stcs(to + first + 32 * i, words[i]);
    }
  }
}

// Tiles are taken across experts: the k-th tiles of all of them hold about the same tokens, whose rows are then read
// from memory once and from L2 by all experts but one. Which tile a block takes changes no byte.
__global__ void __launch_bounds__(kThreads) gather(const __grid_constant__ GatherJob job) {
  if (job.rows.header->status != MXCHECK_OK) return;
  const std::int64_t tiles = job.rows.header->tiles;
  const std::int64_t each = (tiles + job.experts - 1) / job.experts;
  const std::int64_t chunks = job.cols / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t i = blockIdx.x; i < each * kParts * job.experts; i += gridDim.x) {
    const std::int64_t part = i / job.experts;
    const std::int64_t t = i % job.experts * each + part / kParts;
    if (t >= tiles) continue;
    const RowTile tile = job.rows.table[t];
    const std::int64_t first = part % kParts * kPartRows;
    const std::int64_t end = min(first + kPartRows, std::int64_t{tile.rows});
    for (std::int64_t r = first + threadIdx.x / 32; r < end; r += kThreads / 32) {
      const std::int64_t source = __ldg(job.index + tile.first + r);
      copy_row(reinterpret_cast<const uint4*>(job.x) + source * chunks,
               reinterpret_cast<uint4*>(job.out) + (tile.first + r) * chunks, chunks, lane);
    }
  }
}

}  // namespace

cudaError_t launch_gather(const GatherJob& job, cudaStream_t stream) {
  if (job.rows.rows == 0 || job.cols == 0 || job.experts == 0) return cudaSuccess;
  int device = 0;
  int processors = 0;
  if (const auto e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (const auto e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device); e != cudaSuccess) {
    return e;
  }
  gather<<<static_cast<unsigned>(processors * kBlocksEach), kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
