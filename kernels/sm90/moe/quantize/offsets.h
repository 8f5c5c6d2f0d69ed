#pragma once
// Where experts begin in codes along tokens that are padded (layer/steps/steps.h): what the FP8 GEMM of groups along
// depth takes as offsets.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

// padded[0] = 0, padded[e + 1] = padded[e] + 128 * ceil((offsets[e + 1] - offsets[e]) / 128), for experts + 1 offsets
// that do not descend. Nothing else is written; nothing at all where header is there and its status not MXCHECK_OK.
cudaError_t launch_padded_offsets(const std::int64_t* offsets, std::int64_t experts, std::int64_t* padded,
                                  const PlanHeader* header, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
