// A of E4M3, B of E4M3.

#include "kernels/sm90/gemm/fp8/formats.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t gemm_e4m3_e4m3(const GemmFp8& gemm, cudaStream_t stream) {
  return gemm_formats<Code::e4m3, Code::e4m3>(gemm, stream);
}

}  // namespace mxcheck_kernels::sm90
