#include "kernels/sm90/gemm/mma/mma.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t launch_mma_bf16_fp16(const MmaJob& job, cudaStream_t stream) {
  return job.a_code == Code::bf16 ? launch_mma_of<Code::bf16, Code::bf16>(job, stream)
                                  : launch_mma_of<Code::fp16, Code::fp16>(job, stream);
}

cudaError_t launch_mma_tf32(const MmaJob& job, cudaStream_t stream) {
  return launch_mma_of<Code::tf32, Code::tf32>(job, stream);
}

cudaError_t launch_mma(const MmaJob& job, cudaStream_t stream) {
  switch (job.a_code) {
    case Code::e4m3:
    case Code::e5m2: return launch_mma_fp8(job, stream);
    case Code::bf16:
    case Code::fp16: return launch_mma_bf16_fp16(job, stream);
    case Code::tf32: return launch_mma_tf32(job, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mxcheck_kernels::sm90
