#pragma once
// The kernels of transposed.h, one source file each: they are heavy to compile.

#include "kernels/sm90/moe/gemm/by_k.cuh"

namespace mxcheck_kernels::sm90 {

// Tiles of 128 x 256, as gemm/bf16.cu has them for groups.
using ByKShape = Bf16Shape<256, 1>;

cudaError_t start_rows(const MatmulMaps& maps, const MatmulJob& job, MatmulOutput output, cudaStream_t stream);
cudaError_t start_depth(const MatmulMaps& maps, const MatmulJob& job, MatmulOutput output, cudaStream_t stream);

template <template <class> class Tile>
cudaError_t start_by_k(const MatmulMaps& maps, const MatmulJob& job, MatmulOutput output, cudaStream_t stream) {
  return output == MatmulOutput::fp32 ? matmul_start<Tile<float>>(maps, job, stream)
                                      : matmul_start<Tile<__nv_bfloat16>>(maps, job, stream);
}

}  // namespace mxcheck_kernels::sm90
