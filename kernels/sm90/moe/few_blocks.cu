// The GEMMs of few tokens whose weights become codes on their way.

#include "kernels/sm90/moe/few_gemm.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t launch_few_blocks(const FewGemmJob& job, cudaStream_t stream) {
  return start_few_coded<FewWeights::blocks>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
