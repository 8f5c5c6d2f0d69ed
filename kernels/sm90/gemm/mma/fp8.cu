#include "kernels/sm90/gemm/mma/mma.cuh"

namespace mxcheck_sm90 {

cudaError_t launch_sums_fp8(const SumsJob& job, cudaStream_t stream) {
  const bool a_wide = job.a_code == Code::e5m2;  // the wider range
  const bool b_wide = job.b_code == Code::e5m2;
  if (a_wide && b_wide) return launch_sums_of<Code::e5m2, Code::e5m2>(job, stream);
  if (a_wide) return launch_sums_of<Code::e5m2, Code::e4m3>(job, stream);
  if (b_wide) return launch_sums_of<Code::e4m3, Code::e5m2>(job, stream);
  return launch_sums_of<Code::e4m3, Code::e4m3>(job, stream);
}

}  // namespace mxcheck_sm90
