#include "kernels/sm90/gemm/mma/mma.cuh"

namespace mxcheck_sm90 {

cudaError_t launch_sums_halves(const SumsJob& job, cudaStream_t stream) {
  return job.a_code == Code::bf16 ? launch_sums_of<Code::bf16, Code::bf16>(job, stream)
                                  : launch_sums_of<Code::fp16, Code::fp16>(job, stream);
}

cudaError_t launch_sums_tf32(const SumsJob& job, cudaStream_t stream) {
  return launch_sums_of<Code::tf32, Code::tf32>(job, stream);
}

cudaError_t launch_sums(const SumsJob& job, cudaStream_t stream) {
  switch (job.a_code) {
    case Code::e4m3:
    case Code::e5m2: return launch_sums_fp8(job, stream);
    case Code::bf16:
    case Code::fp16: return launch_sums_halves(job, stream);
    case Code::tf32: return launch_sums_tf32(job, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace mxcheck_sm90
