// The GEMMs of few tokens in BF16, and their launch by what weights are.

#include "kernels/sm90/moe/few_gemm.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t launch_few_bf16(const FewGemmJob& job, cudaStream_t stream) {
  return start_few_rows<FewWeights::bf16>(job, NoCoder(), stream);
}

cudaError_t launch_few_gemm(const FewGemmJob& job, cudaStream_t stream) {
  switch (job.weights) {
    case FewWeights::bf16: return launch_few_bf16(job, stream);
    case FewWeights::blocks: return launch_few_blocks(job, stream);
    case FewWeights::codes: return launch_few_codes(job, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mxcheck_kernels::sm90
