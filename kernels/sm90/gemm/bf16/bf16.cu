#include "kernels/sm90/gemm/bf16/bf16.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// The result does not depend on the shape. Tiles of 128 columns are for matmuls of few tiles.
using Shape256 = Bf16Shape<256, 1>;
using Shape128 = Bf16Shape<128, 1>;
constexpr int kRaster = 16;

template <class Out>
cudaError_t launch(const MatmulCall& matmul, cudaStream_t stream) {
  const std::int64_t tiles_of_256 = ((matmul.m + 127) / 128) * ((matmul.n + 255) / 256);
  const bool few = matmul.kind == MatmulKind::dense && tiles_of_256 < 132;
  return few ? matmul_bf16_start<Shape128, Out>(matmul, kRaster, stream)
             : matmul_bf16_start<Shape256, Out>(matmul, kRaster, stream);
}

}  // namespace

cudaError_t matmul_bf16_launch(const MatmulCall& matmul, cudaStream_t stream) {
  if (!matmul_valid(matmul, 8)) return cudaErrorInvalidValue;
  if (matmul_empty(matmul)) return cudaSuccess;
  return matmul.output == MatmulOutput::fp32 ? launch<float>(matmul, stream) : launch<__nv_bfloat16>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
