#pragma once
// The gradient of logits from that of the weights.

#include <cuda_runtime.h>

#include "kernels/sm90/route/router.h"

namespace mxcheck_kernels::sm90 {

struct BackwardJob {
  Router router;
  const std::int32_t* experts = nullptr;  // tokens x top_k: [-1, router.experts)
  const float* gradient = nullptr;        // tokens x top_k
  void* out = nullptr;                    // tokens x router.experts, of the logits' type
};

// One warp a row. Of routes of a token to the same expert the last counts.
cudaError_t launch_backward(const BackwardJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
