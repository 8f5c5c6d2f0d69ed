#include "kernels/sm90/gemm/mma/mma.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t launch_mma_fp8(const MmaJob& job, cudaStream_t stream) {
  const bool a_e5m2 = job.a_code == Code::e5m2;
  const bool b_e5m2 = job.b_code == Code::e5m2;
  if (a_e5m2 && b_e5m2) return launch_mma_of<Code::e5m2, Code::e5m2>(job, stream);
  if (a_e5m2) return launch_mma_of<Code::e5m2, Code::e4m3>(job, stream);
  if (b_e5m2) return launch_mma_of<Code::e4m3, Code::e5m2>(job, stream);
  return launch_mma_of<Code::e4m3, Code::e4m3>(job, stream);
}

}  // namespace mxcheck_kernels::sm90
