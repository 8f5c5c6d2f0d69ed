#pragma once
// Offsets checked by a block of threads, and the sentence about the first that is wrong.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/common/report.cuh"
#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

inline constexpr unsigned long long kNone = ~0ULL;  // of PlanHeader::first

__device__ __forceinline__ void refuse(PlanHeader* header, mxcheck_device_report* report, const char* message,
                                       std::int64_t index, std::int64_t value) {
  header->status = MXCHECK_INVALID;
  report_invalid(report, message, index, value);
}

// Checks that `count` + 1 offsets go from 0 to `end` and do not descend; reports the first that does not. One block.
template <int kThreads>
__device__ bool offsets_are_right(const std::int64_t* offsets, std::int64_t count, std::int64_t end, PlanHeader* header,
                                  mxcheck_device_report* report) {
  __shared__ unsigned long long bad;
  if (threadIdx.x == 0) bad = kNone;
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e <= count; e += kThreads) {
    const std::int64_t o = offsets[e];
    const bool wrong = (e == 0 ? o != 0 : o < offsets[e - 1]) || (e == count && o != end);
    if (wrong) atomicMin(&bad, static_cast<unsigned long long>(e));
  }
  __syncthreads();
  if (bad == kNone) return true;
  if (threadIdx.x == 0) {
    const auto at = static_cast<std::int64_t>(bad);
    const char* message = "offsets[index] must be at least the one before it";
    if (at == count) message = "the last of the offsets must be the end of what they divide, and none may descend";
    if (at == 0 && offsets[0] != 0) message = "offsets[0] must be 0";
    refuse(header, report, message, at, offsets[at]);
  }
  return false;
}

}  // namespace mxcheck_kernels::sm90
