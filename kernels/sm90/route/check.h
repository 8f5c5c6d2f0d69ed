#pragma once
// The check of those of a router's arguments that only the device can read, made there before anything is written.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm90 {

struct Router;

// In the workspace: status is 0 where everything is right.
struct CheckResult {
  unsigned long long first;  // index of the first error: logits row by row, then the bias, then the experts
  std::int32_t status;       // mxcheck_status; read by every other kernel of the call: Router::stop
};
inline constexpr std::uint64_t kCheckBytes = 256;

// Enqueues: NaN in logits and bias (where router.nan_refused), experts outside [-1, router.experts) (where not null;
// tokens x router.top_k). The first found goes to `report`, which may be null, and into result->status.
cudaError_t launch_check(const Router& router, const std::int32_t* experts, CheckResult* result,
                         mxcheck_device_report* report, cudaStream_t stream);

// The same for a kernel that looks at the logits itself, in three steps: begin_check; that kernel, which lowers
// result->first to the number of a NaN's element; end_check, which looks at the bias and tells.
cudaError_t begin_check(CheckResult* result, cudaStream_t stream);
cudaError_t end_check(const Router& router, CheckResult* result, mxcheck_device_report* report, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
