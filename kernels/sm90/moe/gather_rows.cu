#include "kernels/sm90/moe/moe_kernels.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kEachLane = 8;                          // of 16 bytes
constexpr std::int64_t kPartBytes = 512 * kEachLane;  // of a row, a warp's

// The scales of a row are few: a hundredth of its bytes at most.
template <class Word>
__device__ void gather_scales(const GatherJob& job, std::int64_t token, std::int64_t begin, std::int64_t end,
                              int lane) {
  const std::int64_t words = job.scales.row_bytes / static_cast<std::int64_t>(sizeof(Word));
  const Word* const from = static_cast<const Word*>(job.scales.from) + token * words;
  for (std::int64_t k = lane; k < words; k += 32) {
    const Word word = __ldg(from + k);
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const std::int32_t row = __ldg(job.token_rows + slot);
      if (row >= 0) static_cast<Word*>(job.scales.to)[row * words + k] = word;
    }
  }
}

// A warp has a part of a token's row in registers, and writes it to one row after the other. By rows instead, as a
// gather, the same copy took 1.6 times as long: most rows were read from memory once for each of their experts.
__global__ void __launch_bounds__(kThreads) gather(const __grid_constant__ GatherJob job, std::int64_t parts) {
  if (job.header != nullptr && job.header->status != MXCHECK_OK) return;
  const std::int64_t chunks = job.values.row_bytes / 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / 32);
  for (std::int64_t i = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32; i < job.tokens * parts;
       i += warps) {
    const std::int64_t token = i / parts;
    const std::int64_t part = i % parts;
    const std::int64_t first = part * (kPartBytes / 16) + lane;
    const std::int64_t begin = __ldg(job.token_offsets + token);
    const std::int64_t end = __ldg(job.token_offsets + token + 1);
    const auto* const from = static_cast<const uint4*>(job.values.from) + token * chunks;
    uint4 words[kEachLane];
#pragma unroll
    for (int k = 0; k < kEachLane; ++k) {
      if (first + 32 * k < chunks) words[k] = __ldg(from + first + 32 * k);
    }
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const std::int32_t row = __ldg(job.token_rows + slot);
      if (row < 0) continue;
      auto* const to = static_cast<uint4*>(job.values.to) + row * chunks;
#pragma unroll
      for (int k = 0; k < kEachLane; ++k) {
        if (first + 32 * k < chunks) to[first + 32 * k] = words[k];
      }
    }
    if (part != 0 || job.scales.row_bytes == 0) continue;
    if (job.scales.row_bytes % 4 == 0) {
      gather_scales<std::uint32_t>(job, token, begin, end, lane);
    } else {
      gather_scales<std::uint8_t>(job, token, begin, end, lane);
    }
  }
}

}  // namespace

cudaError_t launch_gather(const GatherJob& job, cudaStream_t stream) {
  if (job.tokens == 0 || job.values.row_bytes == 0) return cudaSuccess;
  const std::int64_t parts = (job.values.row_bytes + kPartBytes - 1) / kPartBytes;
  const std::int64_t blocks = (job.tokens * parts + kThreads / 32 - 1) / (kThreads / 32);
  gather<<<static_cast<unsigned>(std::min<std::int64_t>(blocks, 1 << 20)), kThreads, 0, stream>>>(job, parts);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
