// FP32 logits: half of the kernels of topk_quad.cuh, which take 20 seconds to compile.

#include "kernels/sm90/route/topk_quad.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t topk_quad_fp32(const TopkJob& job, cudaStream_t stream) {
  return launch_topk_quad<Logits::fp32>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
