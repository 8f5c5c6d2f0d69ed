// BF16 logits: half of the kernels of topk_quad.cuh, which take 20 seconds to compile.

#include "kernels/sm90/route/topk_quad.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t topk_quad_bf16(const TopkJob& job, cudaStream_t stream) {
  return launch_topk_quad<Logits::bf16>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
