#pragma once
// Which shape a call gets. The result does not depend on it.

#include "kernels/sm90/gemm/fp8/formats.h"
#include "kernels/sm90/gemm/fp8/fp8.cuh"

namespace mxcheck_kernels::sm90 {

// Measured on an H200: docs/performance.md. Tiles of 128 columns are for matmuls of few tiles.
using Gemm256Shape = GemmShape<1, 2, 128, 1, false, false, 4>;
using Gemm128Shape = GemmShape<1, 1, 128, 1, false, false>;
using GemmRowShape = GemmShape<1, 2, 128, 2, false, false, 4>;
inline constexpr int kRaster = 16;

template <Code kA, Code kB, class Out>
cudaError_t gemm_formats_to(const GemmFp8& gemm, cudaStream_t stream) {
  if (gemm.b_block == GemmBlock::row) return gemm_fp8_start<GemmRowShape, kA, kB, Out, true>(gemm, kRaster, stream);
  const std::int64_t tiles_of_256 = ((gemm.m + 127) / 128) * ((gemm.n + 255) / 256);
  const bool few = gemm.kind == GemmKind::dense && tiles_of_256 < 132;
  return few ? gemm_fp8_start<Gemm128Shape, kA, kB, Out, false>(gemm, kRaster, stream)
             : gemm_fp8_start<Gemm256Shape, kA, kB, Out, false>(gemm, kRaster, stream);
}

template <Code kA, Code kB>
cudaError_t gemm_formats(const GemmFp8& gemm, cudaStream_t stream) {
  return gemm.output == GemmOutput::fp32 ? gemm_formats_to<kA, kB, float>(gemm, stream)
                                         : gemm_formats_to<kA, kB, __nv_bfloat16>(gemm, stream);
}

}  // namespace mxcheck_kernels::sm90
