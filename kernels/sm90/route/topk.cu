// Token choice: which kernel, and the copy of what was staged.

#include "kernels/sm90/route/topk.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "kernels/sm90/common/processors.h"

namespace mxcheck_kernels::sm90 {
namespace {

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

constexpr int kThreads = 256;
constexpr int kBlocksOfProcessor = 16;

constexpr std::uint64_t padded(std::int64_t slots) { return (static_cast<std::uint64_t>(slots) * 4 + 255) / 256 * 256; }

struct CopyJob {
  const std::uint32_t* from[2];  // at multiples of 16 bytes
  std::uint32_t* to[2];
  std::int64_t slots;
  bool aligned;  // and `to` as well
  const std::int32_t* stop;
};

__global__ void __launch_bounds__(kThreads) copy(const __grid_constant__ CopyJob job) {
  if (*job.stop != 0) return;
  const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t fours = job.aligned ? job.slots / 4 : 0;
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const auto* const from = reinterpret_cast<const uint4*>(job.from[which]);
    auto* const to = reinterpret_cast<uint4*>(job.to[which]);
    for (std::int64_t i = me; i < fours; i += threads) to[i] = from[i];
    for (std::int64_t i = fours * 4 + me; i < job.slots; i += threads) job.to[which][i] = job.from[which][i];
  }
}

}  // namespace

bool rows_are_aligned(const Router& r) {
  const std::int64_t bytes = r.type == Logits::bf16 ? 2 : 4;
  return is_aligned(r.logits) && r.stride * bytes % 16 == 0 && r.experts % 8 == 0;
}

TopkJob topk_job(const Router& router, std::int32_t* experts, float* weights) {
  TopkJob job;
  job.router = router;
  job.experts = experts, job.weights = weights;
  job.aligned = rows_are_aligned(router), job.aligned_bias = is_aligned(router.bias);
  job.aligned_out = is_aligned(experts) && is_aligned(weights);
  job.low = std::bit_ceil((static_cast<std::uint32_t>(router.experts) + 31) / 32 * 32) - 1;  // four lanes' groups of 8
  return job;
}

cudaError_t topk(const Router& router, std::int32_t* experts, float* weights, cudaStream_t stream) {
  if (router.tokens == 0) return cudaSuccess;
  const TopkJob job = topk_job(router, experts, weights);
  if (!is_listed(router)) return topk_warp(job, stream);
  return router.type == Logits::bf16 ? topk_quad_bf16(job, stream) : topk_quad_fp32(job, stream);
}

std::uint64_t staged_bytes(std::int64_t slots) { return kCheckBytes + 2 * padded(slots); }

bool can_be_staged(const Router& router) { return is_listed(router) && rows_are_aligned(router); }

cudaError_t topk_staged(const Router& router, std::int32_t* experts, float* weights, void* workspace,
                        mxcheck_device_report* report, cudaStream_t stream) {
  auto* const result = static_cast<CheckResult*>(workspace);
  auto* const staged = static_cast<std::byte*>(workspace) + kCheckBytes;
  auto* const staged_experts = reinterpret_cast<std::int32_t*>(staged);
  auto* const staged_weights = reinterpret_cast<float*>(staged + padded(slots_of(router)));
  cudaError_t e = begin_check(result, stream);
  if (e != cudaSuccess) return e;
  if (router.tokens != 0) {
    TopkJob job = topk_job(router, staged_experts, staged_weights);
    job.first_nan = &result->first;
    e = router.type == Logits::bf16 ? topk_quad_bf16(job, stream) : topk_quad_fp32(job, stream);
    if (e != cudaSuccess) return e;
  }
  e = end_check(router, result, report, stream);
  if (e != cudaSuccess || router.tokens == 0) return e;
  CopyJob job;
  job.from[0] = reinterpret_cast<const std::uint32_t*>(staged_experts);
  job.from[1] = reinterpret_cast<const std::uint32_t*>(staged_weights);
  job.to[0] = reinterpret_cast<std::uint32_t*>(experts), job.to[1] = reinterpret_cast<std::uint32_t*>(weights);
  job.slots = slots_of(router), job.stop = &result->status;
  job.aligned = (reinterpret_cast<std::uintptr_t>(experts) | reinterpret_cast<std::uintptr_t>(weights)) % 16 == 0;
  int processors = 0;
  e = count_processors(processors);
  if (e != cudaSuccess) return e;
  const auto blocks =
      static_cast<unsigned>(std::clamp<std::int64_t>(job.slots / 4 / kThreads, 1, kBlocksOfProcessor * processors));
  copy<<<blocks, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
