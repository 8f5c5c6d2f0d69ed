#include "kernels/sm90/gemm/candidate/call.h"

#include <algorithm>

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;

// 16 bytes of the copy a thread, whose bytes lie anywhere in the source: one by one, since this is for the odd case.
__global__ void __launch_bounds__(kThreads) pad(const __grid_constant__ PadJob job) {
  const PadOperand& x = job.operands[blockIdx.y];
  const std::int64_t chunks = job.pitch_bytes / 16;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < x.rows * chunks; i += stride) {
    const std::int64_t row = i / chunks;
    const std::int64_t first = i % chunks * 16;
    const auto* const from = static_cast<const std::uint8_t*>(x.from) + row * job.row_bytes;
    std::uint32_t words[4] = {};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      if (first + j < job.row_bytes) words[j / 4] |= std::uint32_t{from[first + j]} << j % 4 * 8;
    }
    static_cast<uint4*>(x.to)[i] = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace

cudaError_t launch_pad(const PadJob& job, cudaStream_t stream) {
  const std::int64_t chunks = std::max(job.operands[0].rows, job.operands[1].rows) * (job.pitch_bytes / 16);
  if (chunks == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((chunks + kThreads - 1) / kThreads, 1 << 16));
  pad<<<dim3(blocks, 2), kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
