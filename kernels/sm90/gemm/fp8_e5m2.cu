// FP8 with A in E5M2.

#include "kernels/sm90/gemm/fp8.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_fp8_e5m2(const MatmulFp8& matmul, cudaStream_t stream) {
  return matmul.b_format == Element::e4m3 ? matmul_formats<Code::e5m2, Code::e4m3>(matmul, stream)
                                          : matmul_formats<Code::e5m2, Code::e5m2>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
