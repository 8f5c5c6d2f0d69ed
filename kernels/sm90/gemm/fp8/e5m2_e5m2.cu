// A of E5M2, B of E5M2.

#include "kernels/sm90/gemm/fp8/formats.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_e5m2_e5m2(const MatmulFp8& matmul, cudaStream_t stream) {
  return matmul_formats<Code::e5m2, Code::e5m2>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
