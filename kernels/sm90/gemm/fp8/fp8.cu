#include "kernels/sm90/gemm/fp8/fp8.cuh"

#include "kernels/sm90/gemm/fp8/formats.h"

namespace mxcheck_kernels::sm90 {

cudaError_t gemm_fp8_prepare(const GemmFp8& gemm, int rows_of_a, int rows_of_b, GemmMaps& maps, GemmJob& job) {
  job.a_e8m0 = gemm.a_scale_type == GemmScale::e8m0;
  job.b_e8m0 = gemm.b_scale_type == GemmScale::e8m0;
  job.scale_a = gemm.scale_a;
  job.scale_b = gemm.scale_b;
  return gemm_prepare(gemm, 1, 1, rows_of_a, rows_of_b, maps, job);
}

cudaError_t gemm_fp8_launch(const GemmFp8& gemm, cudaStream_t stream) {
  if (!gemm_valid(gemm, kBlockK) || (gemm.kind == GemmKind::depth && gemm.b_block != GemmBlock::row)) {
    return cudaErrorInvalidValue;
  }
  if (gemm_empty(gemm)) return cudaSuccess;
  const bool b_e4m3 = gemm.b_format == Element::e4m3;
  if (gemm.a_format == Element::e4m3) {
    return b_e4m3 ? gemm_e4m3_e4m3(gemm, stream) : gemm_e4m3_e5m2(gemm, stream);
  }
  return b_e4m3 ? gemm_e5m2_e4m3(gemm, stream) : gemm_e5m2_e5m2(gemm, stream);
}

}  // namespace mxcheck_kernels::sm90
