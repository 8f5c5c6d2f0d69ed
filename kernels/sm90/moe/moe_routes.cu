// The check of routes: three kernels in a row, where make_plan and check_slots after one another are seven: offsets and
// tiles by one block of threads, every other number by many, and the sentence about the first that is wrong. And
// offsets padded to multiples of 128 rows.

#include "kernels/sm90/moe/moe_kernels.h"

#include <algorithm>

#include "kernels/sm90/moe/routes.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;

// The first that is wrong by an atomic minimum: the same one in every run.
__global__ void look_kernel(const __grid_constant__ RoutesJob job) {
  if (job.header->status != MXCHECK_OK) return;
  const RoutePlaces places = route_places(job);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < places.end; i += step) {
    if (is_wrong_route(job, places, i)) atomicMin(&job.header->first, static_cast<unsigned long long>(i));
  }
}

__global__ void judge_kernel(const __grid_constant__ RoutesJob job) { judge_routes(job, job.header, job.rows.report); }

constexpr int kPadThreads = 1024;

__device__ __forceinline__ std::int64_t padded_rows(const std::int64_t* offsets, std::int64_t e) {
  return (offsets[e + 1] - offsets[e] + kTileRows - 1) / kTileRows * kTileRows;
}

// One block of threads; each takes a run of experts, and begins it where the threads before it end.
__global__ void __launch_bounds__(kPadThreads)
    pad_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded, const PlanHeader* header) {
  if (header != nullptr && header->status != MXCHECK_OK) return;
  __shared__ std::int64_t part[kPadThreads];
  const std::int64_t me = threadIdx.x;
  const std::int64_t run = (experts + kPadThreads - 1) / kPadThreads;
  const std::int64_t begin = min(me * run, experts);
  const std::int64_t end = min(begin + run, experts);
  std::int64_t sum = 0;
  for (std::int64_t e = begin; e < end; ++e) sum += padded_rows(offsets, e);
  part[me] = sum;
  __syncthreads();
  for (int step = 1; step < kPadThreads; step *= 2) {
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

cudaError_t check_routes(const RoutesJob& job, cudaStream_t stream) {
  PlanJob offsets = job.rows;
  offsets.index = nullptr;
  if (const cudaError_t e = make_plan(offsets, job.header, job.table, stream); e != cudaSuccess) return e;
  const std::int64_t blocks = std::min((route_places(job).end + kThreads - 1) / kThreads, kMostBlocks);
  look_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(job);
  judge_kernel<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_padded_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded,
                                  const PlanHeader* header, cudaStream_t stream) {
  pad_offsets<<<1, kPadThreads, 0, stream>>>(offsets, experts, padded, header);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
