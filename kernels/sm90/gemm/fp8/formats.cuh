#pragma once
// Tile shape selection. The result does not depend on it.

#include "kernels/sm90/gemm/fp8/formats.h"
#include "kernels/sm90/gemm/fp8/fp8.cuh"

namespace mxcheck_kernels::sm90 {

// Measured on an H200: docs/performance.md. Tiles of 128 columns are for matmuls of few tiles.
using Matmul256Shape = MatmulShape<1, 2, 128, 1, false, false, 4>;
using Matmul128Shape = MatmulShape<1, 1, 128, 1, false, false>;
using MatmulRowShape = MatmulShape<1, 2, 128, 2, false, false, 4>;
inline constexpr int kRaster = 16;

template <Code kA, Code kB, class Out>
cudaError_t matmul_formats_to(const MatmulFp8& matmul, cudaStream_t stream) {
  if (matmul.b_block == MatmulBlock::row)
    return matmul_fp8_start<MatmulRowShape, kA, kB, Out, true>(matmul, kRaster, stream);
  const std::int64_t tiles_of_256 = ((matmul.m + 127) / 128) * ((matmul.n + 255) / 256);
  const bool few = matmul.kind == MatmulKind::dense && tiles_of_256 < 132;
  return few ? matmul_fp8_start<Matmul128Shape, kA, kB, Out, false>(matmul, kRaster, stream)
             : matmul_fp8_start<Matmul256Shape, kA, kB, Out, false>(matmul, kRaster, stream);
}

template <Code kA, Code kB>
cudaError_t matmul_formats(const MatmulFp8& matmul, cudaStream_t stream) {
  return matmul.output == MatmulOutput::fp32 ? matmul_formats_to<kA, kB, float>(matmul, stream)
                                             : matmul_formats_to<kA, kB, __nv_bfloat16>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
