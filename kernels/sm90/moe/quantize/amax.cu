// The largest magnitude of a tensor: each thread's, each block's, then an atomic maximum of bits, whose order does not
// matter. Bits of a NaN are above those of infinity.

#include <algorithm>

#include "kernels/sm90/layer/steps/coder.cuh"
#include "kernels/sm90/moe/quantize/square.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kAtOnce = 4;  // loads of a thread

__device__ __forceinline__ bool is_refused(const AmaxJob& job) {
  return job.header != nullptr && job.header->status != MXCHECK_OK;
}

__global__ void begin_amax(const __grid_constant__ AmaxJob job) {
  if (!is_refused(job)) *job.amax = 0;
}

// `vectors`: eights that are loaded as one; what follows them one by one.
__global__ void __launch_bounds__(kThreads, 4) find_amax(const __grid_constant__ AmaxJob job, std::int64_t vectors) {
  if (is_refused(job)) return;
  __shared__ std::uint32_t of_warps[kWarps];
  const auto* const x = reinterpret_cast<const uint4*>(job.x);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  std::uint32_t two = 0;
  std::int64_t i = me;
  for (; i + (kAtOnce - 1) * step < vectors; i += kAtOnce * step) {
    uint4 v[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) v[k] = __ldg(x + i + k * step);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) two = __vmaxu2(two, amax_of(v[k]));
  }
  for (; i < vectors; i += step) two = __vmaxu2(two, amax_of(__ldg(x + i)));
  for (i = vectors * kEach + me; i < job.elements; i += step) two = larger_halves(two, __ldg(job.x + i));
  const std::uint32_t of_warp = __reduce_max_sync(kAllLanes, larger_half(two));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x >= kWarps) return;
  const std::uint32_t amax = __reduce_max_sync((1U << kWarps) - 1, of_warps[threadIdx.x]);
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<unsigned*>(job.amax), amax);
}

}  // namespace

cudaError_t launch_amax(const AmaxJob& job, cudaStream_t stream) {
  begin_amax<<<1, 1, 0, stream>>>(job);
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess || job.elements == 0) return e;
  const bool aligned = reinterpret_cast<std::uintptr_t>(job.x) % 16 == 0;
  const std::int64_t vectors = aligned ? job.elements / kEach : 0;
  constexpr std::int64_t kResident = 132 * 4;
  const std::int64_t needed = ((aligned ? vectors + kEach : job.elements) + kThreads - 1) / kThreads;
  find_amax<<<static_cast<unsigned>(std::min(needed, kResident)), kThreads, 0, stream>>>(job, vectors);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
