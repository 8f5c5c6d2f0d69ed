#include "kernels/sm90/moe/quantize/offsets.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 1024;

__device__ __forceinline__ std::int64_t padded_rows(const std::int64_t* offsets, std::int64_t e) {
  return (offsets[e + 1] - offsets[e] + kTileRows - 1) / kTileRows * kTileRows;
}

// One block of threads; each takes a run of experts, and begins it where the threads before it end.
__global__ void __launch_bounds__(kThreads)
    pad_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded, const PlanHeader* header) {
  if (header != nullptr && header->status != MXCHECK_OK) return;
  __shared__ std::int64_t part[kThreads];
  const std::int64_t me = threadIdx.x;
  const std::int64_t run = (experts + kThreads - 1) / kThreads;
  const std::int64_t begin = min(me * run, experts);
  const std::int64_t end = min(begin + run, experts);
  std::int64_t sum = 0;
  for (std::int64_t e = begin; e < end; ++e) sum += padded_rows(offsets, e);
  part[me] = sum;
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    const std::int64_t earlier = me >= step ? part[me - step] : 0;
    __syncthreads();
    part[me] += earlier;
    __syncthreads();
  }
  std::int64_t at = part[me] - sum;
  if (me == 0) padded[0] = 0;
  for (std::int64_t e = begin; e < end; ++e) padded[e + 1] = at += padded_rows(offsets, e);
}

}  // namespace

cudaError_t launch_padded_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded,
                                  const PlanHeader* header, cudaStream_t stream) {
  pad_offsets<<<1, kThreads, 0, stream>>>(offsets, experts, padded, header);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
