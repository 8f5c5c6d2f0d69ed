// A of E5M2, B of E4M3.

#include "kernels/sm90/gemm/fp8/formats.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_e5m2_e4m3(const MatmulFp8& matmul, cudaStream_t stream) {
  return matmul_formats<Code::e5m2, Code::e4m3>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
