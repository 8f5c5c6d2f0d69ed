#pragma once
// The shapes of tiles. The result does not depend on them.

#include "kernels/sm90/gemm/fp8/formats.h"
#include "kernels/sm90/gemm/fp8/fp8.cuh"
#include "kernels/sm90/gemm/tile/choice.h"

namespace mxcheck_kernels::sm90 {

// Versions: docs/performance_log.md. Two partials in flight pay only where a tile has few columns.
template <MatmulTiles kTiles>
struct Fp8Tiles;
template <>
struct Fp8Tiles<MatmulTiles::m128n256> {
  using Shape = MatmulShape<1, 2, 128, 1, false, false, 4>;
};
template <>
struct Fp8Tiles<MatmulTiles::m128n128> {
  using Shape = MatmulShape<1, 1, 128, 1, false, false>;
};
template <>
struct Fp8Tiles<MatmulTiles::m128n64> {
  using Shape = MatmulShape<1, 1, 64, 1, false, false, 1>;
};
template <>
struct Fp8Tiles<MatmulTiles::m64n128> {
  using Shape = MatmulShape<1, 1, 128, 1, false, false, 2, 1>;
};
template <>
struct Fp8Tiles<MatmulTiles::m64n64> {
  using Shape = MatmulShape<1, 1, 64, 1, false, false, 1, 1>;
};
template <>
struct Fp8Tiles<MatmulTiles::m64n32> {
  using Shape = MatmulShape<1, 1, 32, 1, false, false, 1, 1>;
};
// Scales of 1 x 128 on both sides. Consumers of large tiles are side by side, so that those of B that a thread reads
// serve four of its rows.
template <MatmulTiles kTiles>
struct Fp8RowTiles;
template <>
struct Fp8RowTiles<MatmulTiles::m128n256> {
  using Shape = MatmulShape<2, 1, 128, 2, false, false, 4, 2, true>;
};
template <>
struct Fp8RowTiles<MatmulTiles::m128n192> {
  using Shape = MatmulShape<2, 1, 96, 1, false, false, 3, 2, true>;
};
template <>
struct Fp8RowTiles<MatmulTiles::m128n128> {
  using Shape = MatmulShape<1, 1, 128, 1, false, false>;
};
template <>
struct Fp8RowTiles<MatmulTiles::m64n64> {
  using Shape = MatmulShape<1, 1, 64, 1, false, false, 1, 1>;
};
template <>
struct Fp8RowTiles<MatmulTiles::m64n32> {
  using Shape = MatmulShape<1, 1, 32, 1, false, false, 1, 1>;
};
inline constexpr int kRaster = 16;

template <Code kA, Code kB, class Out>
cudaError_t matmul_rows_to(const MatmulFp8& matmul, cudaStream_t stream) {
  return with_tiles<kFp8RowCosts>(chosen_tiles(matmul, kFp8RowCosts, kBlockK), [&](auto tiles) {
    return matmul_fp8_start<typename Fp8RowTiles<tiles.value>::Shape, kA, kB, Out, true>(matmul, kRaster, stream);
  });
}

template <Code kA, Code kB, class Out>
cudaError_t matmul_formats_to(const MatmulFp8& matmul, cudaStream_t stream) {
  if (matmul.b_block == MatmulBlock::row) return matmul_rows_to<kA, kB, Out>(matmul, stream);
  return with_tiles<kFp8Costs>(chosen_tiles(matmul, kFp8Costs, kBlockK), [&](auto tiles) {
    return matmul_fp8_start<typename Fp8Tiles<tiles.value>::Shape, kA, kB, Out, false>(matmul, kRaster, stream);
  });
}

template <Code kA, Code kB>
cudaError_t matmul_formats(const MatmulFp8& matmul, cudaStream_t stream) {
  return matmul.output == MatmulOutput::fp32 ? matmul_formats_to<kA, kB, float>(matmul, stream)
                                             : matmul_formats_to<kA, kB, __nv_bfloat16>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
