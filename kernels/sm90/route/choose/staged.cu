#include "kernels/sm90/route/choose/staged.h"

#include <algorithm>
#include <cstddef>

#include "kernels/sm90/route/choose/choose.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 132 * 16;

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

std::uint64_t staged_bytes(std::int64_t slots) { return kCheckBytes + 2 * padded(slots); }

bool can_be_staged(const Router& router) { return is_listed(router) && rows_are_aligned(router); }

cudaError_t choose_staged(const Router& router, std::int32_t* experts, float* weights, void* workspace,
                          mxcheck_device_report* report, cudaStream_t stream) {
  auto* const result = static_cast<CheckResult*>(workspace);
  auto* const staged = static_cast<std::byte*>(workspace) + kCheckBytes;
  auto* const staged_experts = reinterpret_cast<std::int32_t*>(staged);
  auto* const staged_weights = reinterpret_cast<float*>(staged + padded(slots_of(router)));
  cudaError_t e = begin_check(result, stream);
  if (e != cudaSuccess) return e;
  if (router.tokens != 0) {
    ChooseJob job = job_of(router, staged_experts, staged_weights);
    job.first_nan = &result->first;
    e = router.type == Logits::bf16 ? choose_bf16(job, stream) : choose_fp32(job, stream);
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
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(job.slots / 4 / kThreads, 1, kMostBlocks));
  copy<<<blocks, kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
