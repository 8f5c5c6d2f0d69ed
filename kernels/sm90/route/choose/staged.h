#pragma once
// Token choice that refuses NaN and reads the logits once: what is chosen goes to the workspace, and from there to the
// outputs where the last row has been seen without a NaN. Experts and weights are a few bytes of a row; the logits,
// which a check before would read as well, are most.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/route/check.h"
#include "kernels/sm90/route/router.h"

namespace mxcheck_kernels::sm90 {

// kCheckBytes for the CheckResult, then experts and weights.
std::uint64_t staged_bytes(std::int64_t slots);

// Whether a router's rows can be looked at while they are chosen from: whole groups of 8, aligned, listed.
bool can_be_staged(const Router& router);

// Enqueues check and choice of a router for which can_be_staged. `workspace`: staged_bytes(), at a multiple of 256.
cudaError_t choose_staged(const Router& router, std::int32_t* experts, float* weights, void* workspace,
                          mxcheck_device_report* report, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
