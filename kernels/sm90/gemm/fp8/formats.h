#pragma once
// One function for each pair of formats, each in a file of its own: the kernels take long to compile.

#include "kernels/sm90/gemm/fp8/fp8.h"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_e4m3_e4m3(const MatmulFp8& matmul, cudaStream_t stream);
cudaError_t matmul_e4m3_e5m2(const MatmulFp8& matmul, cudaStream_t stream);
cudaError_t matmul_e5m2_e4m3(const MatmulFp8& matmul, cudaStream_t stream);
cudaError_t matmul_e5m2_e5m2(const MatmulFp8& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
