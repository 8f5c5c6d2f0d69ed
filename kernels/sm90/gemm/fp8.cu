// FP8 with A in E4M3, and the launch of all formats.

#include "kernels/sm90/gemm/fp8.cuh"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_fp8_prepare(const MatmulFp8& matmul, const MatmulBoxes& boxes, MatmulMaps& maps, MatmulJob& job) {
  job.a_e8m0 = matmul.a_scale_type == MatmulScale::e8m0;
  job.b_e8m0 = matmul.b_scale_type == MatmulScale::e8m0;
  job.scale_a = matmul.scale_a;
  job.scale_b = matmul.scale_b;
  job.scale_starts = matmul.scale_starts;
  if (const auto e = matmul_prepare(matmul, 1, 1, boxes, maps, job); e != cudaSuccess) return e;
  job.scale_columns = matmul.scale_starts == nullptr ? job.kblocks : matmul.scale_columns;
  return cudaSuccess;
}

cudaError_t matmul_fp8_launch(const MatmulFp8& matmul, cudaStream_t stream) {
  if (matmul_empty(matmul)) return cudaSuccess;
  if (!matmul_valid(matmul, 16) || (matmul.kind == MatmulKind::depth && matmul.b_block != MatmulBlock::row)) {
    return cudaErrorInvalidValue;
  }
  if (matmul.a_format == Element::e5m2) return matmul_fp8_e5m2(matmul, stream);
  return matmul.b_format == Element::e4m3 ? matmul_formats<Code::e4m3, Code::e4m3>(matmul, stream)
                                          : matmul_formats<Code::e4m3, Code::e5m2>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
