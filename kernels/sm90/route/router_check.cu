// The check of a router's arguments on the device: NaN in logits and bias, experts that there are not.

#include <algorithm>

#include "kernels/sm90/common/processors.h"
#include "kernels/sm90/common/report.cuh"
#include "kernels/sm90/route/logits_row.cuh"
#include "kernels/sm90/route/route_call.h"
#include "kernels/sm90/route/topk.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // rows of a thread in flight
constexpr int kBlocksOfProcessor = 16;
constexpr unsigned long long kNone = ~0ULL;

struct CheckJob {
  Router router;
  const std::int32_t* experts = nullptr;
  bool aligned = false;
  bool rows_are_seen = false;  // a kernel before has looked at the logits
  int lanes = 1;               // of a row: a power of two
  mxcheck_device_report* report = nullptr;
};

template <Logits kType>
__device__ void look_at_row(const CheckJob& job, const void* row, std::int64_t token, int lane,
                            unsigned long long& bad) {
  const int experts = job.router.experts;
  for (int g = lane; g * kGroup < experts; g += job.lanes) {
    // The values that fill a group past the last expert are NaN as well.
    const bool whole = (g + 1) * kGroup <= experts;
    if (whole && !holds_nan(load_group<kType>(row, g, experts, job.aligned))) continue;
    for (int e = g * kGroup; e < min((g + 1) * kGroup, experts); ++e) {
      if (is_nan(logit_at<kType>(row, e))) {
        bad = min(bad, static_cast<unsigned long long>(token * experts + e));
      }
    }
  }
}

template <Logits kType>
__global__ void __launch_bounds__(kThreads) look(const __grid_constant__ CheckJob job, CheckResult* result) {
  const Router& r = job.router;
  const std::int64_t me = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  unsigned long long bad = kNone;
  const auto elements = static_cast<unsigned long long>(std::int64_t{r.tokens} * r.experts);
  const auto biases = static_cast<unsigned long long>(r.bias == nullptr ? 0 : r.experts);
  if (r.nan_refused) {
    const auto lane = static_cast<int>(me % job.lanes);
    const std::int64_t step = threads / job.lanes;
    const std::int64_t tokens = job.rows_are_seen ? 0 : r.tokens;
    for (std::int64_t token = me / job.lanes; token < tokens; token += step * kAtOnce) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t t = token + i * step;
        if (t < r.tokens) look_at_row<kType>(job, row_of(r, t), t, lane, bad);
      }
    }
    for (std::int64_t e = me; e < static_cast<std::int64_t>(biases); e += threads) {
      if (is_nan(r.bias[e])) bad = min(bad, elements + static_cast<unsigned long long>(e));
    }
  }
  const std::int64_t slots = job.experts == nullptr ? 0 : std::int64_t{r.tokens} * r.top_k;
  for (std::int64_t i = me; i < slots; i += threads) {
    const std::int32_t e = job.experts[i];
    if (e < -1 || e >= r.experts) bad = min(bad, elements + biases + static_cast<unsigned long long>(i));
  }
  if (bad != kNone) atomicMin(&result->first, bad);
}

__global__ void tell(const __grid_constant__ CheckJob job, CheckResult* result) {
  const Router& r = job.router;
  const unsigned long long first = result->first;
  result->status = first == kNone ? MXCHECK_OK : MXCHECK_INVALID;
  if (first == kNone || job.report == nullptr) return;
  auto index = static_cast<std::int64_t>(first);
  const std::int64_t elements = std::int64_t{r.tokens} * r.experts;
  const std::int64_t biases = r.bias == nullptr ? 0 : r.experts;
  const char* message = "logits[index] is NaN: must be a number, as policy.nan is refuse";
  std::int64_t value = 0;
  if (index >= elements + biases) {
    index -= elements + biases, value = job.experts[index];
    message = "experts[index] must be -1 (none) or an expert: less than there are";
  } else if (index >= elements) {
    index -= elements;
    message = "bias[index] is NaN: must be a number, as policy.nan is refuse";
  }
  report_invalid(job.report, message, index, value);
}

cudaError_t launch_look(const CheckJob& job, std::int64_t items, CheckResult* result, cudaStream_t stream) {
  int processors = 0;
  if (const cudaError_t e = count_processors(processors); e != cudaSuccess) return e;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((items + kThreads - 1) / kThreads, 1, kBlocksOfProcessor * processors));
  if (job.router.type == Logits::bf16) {
    look<Logits::bf16><<<blocks, kThreads, 0, stream>>>(job, result);
  } else {
    look<Logits::fp32><<<blocks, kThreads, 0, stream>>>(job, result);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t begin_check(CheckResult* result, cudaStream_t stream) {
  return cudaMemsetAsync(result, 0xFF, sizeof(*result), stream);
}

cudaError_t end_check(const Router& router, CheckResult* result, mxcheck_device_report* report, cudaStream_t stream) {
  CheckJob job;
  job.router = router, job.report = report, job.rows_are_seen = true;
  if (router.bias != nullptr) {
    if (const cudaError_t e = launch_look(job, router.experts, result, stream); e != cudaSuccess) return e;
  }
  tell<<<1, 1, 0, stream>>>(job, result);
  return cudaGetLastError();
}

cudaError_t launch_check(const Router& router, const std::int32_t* experts, CheckResult* result,
                         mxcheck_device_report* report, cudaStream_t stream) {
  cudaError_t e = begin_check(result, stream);
  if (e != cudaSuccess) return e;
  CheckJob job;
  job.router = router;
  job.experts = experts, job.report = report;
  job.aligned = rows_are_aligned(router);
  while (job.lanes < 32 && job.lanes * kGroup < router.experts) job.lanes *= 2;
  e = launch_look(job, std::max(std::int64_t{router.tokens} * job.lanes, std::int64_t{router.experts}), result, stream);
  if (e != cudaSuccess) return e;
  tell<<<1, 1, 0, stream>>>(job, result);
  return cudaGetLastError();
}

}  // namespace mxcheck_kernels::sm90
