// The header of kept weights and their digests. A digest is a sum modulo 2^64 of a term for each 8 bytes: threads add
// theirs in registers, then by an atomic, whose order does not matter.

#include "kernels/sm90/moe/kept/kept_weights.h"

#include <algorithm>

#include "kernels/common/digest.h"
#include "kernels/sm90/common/processors.h"
#include "kernels/sm90/moe/kept/kept_layer.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kLoads = 4;  // of a thread, on their way together
constexpr int kPerProcessor = 4;

__device__ bool is_refused(const PlanHeader* plan) { return plan->status != MXCHECK_OK; }

__global__ void begin_keeping(const __grid_constant__ KeptJob job) {
  if (is_refused(job.plan)) return;
  job.header->layer.mark = 0;
  job.digests[0] = job.digests[1] = 0;
}

__global__ void write_header(const __grid_constant__ KeptJob job) {
  if (is_refused(job.plan)) return;
  for (int i = 0; i < 2; ++i) job.header->digests[i] = job.digests[i];
  job.header->layer = job.layer;
}

__global__ void begin_digests(const __grid_constant__ KeptJob job) { job.digests[0] = job.digests[1] = 0; }

__global__ void check_header(const __grid_constant__ KeptJob job) {
  if (is_refused(job.plan)) return;
  if (!is_of_layer(*job.header, job.layer)) return refuse_layer(job.plan, job.report);
  if (job.digests == nullptr) return;
  for (int i = 0; i < 2; ++i) {
    if (job.digests[i] == job.header->digests[i]) continue;
    return refuse(job.plan, job.report, "w1 and w2 must be the weights that kept.memory holds: w<index> is another",
                  i + 1, 0);
  }
}

__device__ __forceinline__ std::uint64_t terms(std::int64_t vector, const uint4& v) {
  const auto word = static_cast<std::uint64_t>(2 * vector);
  return digest_term(word, std::uint64_t{v.y} << 32 | v.x) + digest_term(word + 1, std::uint64_t{v.w} << 32 | v.z);
}

__global__ void __launch_bounds__(kThreads)
    add_digest(const uint4* w, std::int64_t vectors, unsigned long long* digest, const PlanHeader* plan) {
  if (is_refused(plan)) return;
  __shared__ unsigned long long of_warps[kWarps];
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  std::uint64_t sum = 0;
  for (; i + (kLoads - 1) * step < vectors; i += kLoads * step) {
    uint4 v[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) v[k] = __ldg(w + i + k * step);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) sum += terms(i + k * step, v[k]);
  }
  for (; i < vectors; i += step) sum += terms(i, __ldg(w + i));
  for (int lanes = 16; lanes != 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, lanes);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) sum += of_warps[warp];
  atomicAdd(digest, static_cast<unsigned long long>(sum));
}

}  // namespace

cudaError_t launch_begin_keeping(const KeptJob& job, cudaStream_t stream) {
  begin_keeping<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_write_kept_header(const KeptJob& job, cudaStream_t stream) {
  write_header<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_begin_digests(const KeptJob& job, cudaStream_t stream) {
  begin_digests<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_check_kept_header(const KeptJob& job, cudaStream_t stream) {
  check_header<<<1, 1, 0, stream>>>(job);
  return cudaGetLastError();
}

cudaError_t launch_digest(const std::uint16_t* w, std::int64_t elements, unsigned long long* digest,
                          const PlanHeader* plan, cudaStream_t stream) {
  const std::int64_t vectors = elements / 8;
  if (elements % 8 != 0 || reinterpret_cast<std::uintptr_t>(w) % 16 != 0) return cudaErrorInvalidValue;
  if (vectors == 0) return cudaSuccess;
  int processors = 0;
  if (const cudaError_t e = count_processors(processors); e != cudaSuccess) return e;
  const auto blocks = std::min<std::int64_t>((vectors + kThreads - 1) / kThreads, processors * kPerProcessor);
  add_digest<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(w), vectors, digest,
                                                                     plan);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
