#include "kernels/sm90/route/choose/choose.h"

#include <bit>

namespace mxcheck_kernels::sm90 {
namespace {

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

bool rows_are_aligned(const Router& r) {
  const std::int64_t bytes = r.type == Logits::bf16 ? 2 : 4;
  return is_aligned(r.logits) && r.stride * bytes % 16 == 0 && r.experts % 8 == 0;
}

ChooseJob job_of(const Router& router, std::int32_t* experts, float* weights) {
  ChooseJob job;
  job.router = router;
  job.experts = experts, job.weights = weights;
  job.aligned = rows_are_aligned(router), job.aligned_bias = is_aligned(router.bias);
  job.aligned_out = is_aligned(experts) && is_aligned(weights);
  job.low = std::bit_ceil((static_cast<std::uint32_t>(router.experts) + 31) / 32 * 32) - 1;  // four lanes' groups of 8
  return job;
}

cudaError_t choose(const Router& router, std::int32_t* experts, float* weights, cudaStream_t stream) {
  if (router.tokens == 0) return cudaSuccess;
  const ChooseJob job = job_of(router, experts, weights);
  if (!is_listed(router)) return choose_many(job, stream);
  return router.type == Logits::bf16 ? choose_bf16(job, stream) : choose_fp32(job, stream);
}

}  // namespace mxcheck_kernels::sm90
