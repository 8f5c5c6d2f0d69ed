// The GEMMs of few tokens whose weights are codes.

#include "kernels/sm90/moe/few_gemm.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t launch_few_codes(const FewGemmJob& job, cudaStream_t stream) {
  return start_few_coded<FewWeights::codes>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
