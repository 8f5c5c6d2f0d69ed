#pragma once
// NaN in a row of few.cuh, looked for before it is chosen from; what follows finds the row in L1.

#include "kernels/sm90/route/choose/choose.h"
#include "kernels/sm90/route/choose/settle.cuh"
#include "kernels/sm90/route/row/nan.cuh"

namespace mxcheck_kernels::sm90 {

// By four lanes, of a row of whole groups at a multiple of 16 bytes.
template <Logits kType>
__device__ __forceinline__ void look_for_nan(const ChooseJob& job, const void* row, std::int64_t token, int lane) {
  const int experts = job.router.experts;
  const int groups = experts / kGroup;
  bool any = false;
#pragma unroll 8
  for (int g = lane; g < groups; g += kLanes) any |= holds_nan<kType>(load_inside<kType>(row, g));
  if (!any) return;
  for (int e = 0; e < experts; ++e) {  // rare: the call is refused
    if (e / kGroup % kLanes != lane || !is_nan(logit_at<kType>(row, e))) continue;
    atomicMin(job.first_nan, static_cast<unsigned long long>(token * experts + e));
    return;
  }
}

}  // namespace mxcheck_kernels::sm90
