#include "kernels/sm90/gemm/bf16/bf16.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

// The result does not depend on the shape. Tiles of 128 columns are for matmuls of few tiles.
using Shape256 = Bf16Shape<256, 1>;
using Shape128 = Bf16Shape<128, 1>;
constexpr int kRaster = 16;

template <class Out>
cudaError_t launch(const GemmCall& gemm, cudaStream_t stream) {
  const std::int64_t tiles_of_256 = ((gemm.m + 127) / 128) * ((gemm.n + 255) / 256);
  const bool few = gemm.kind == GemmKind::dense && tiles_of_256 < 132;
  return few ? gemm_bf16_start<Shape128, Out>(gemm, kRaster, stream)
             : gemm_bf16_start<Shape256, Out>(gemm, kRaster, stream);
}

}  // namespace

cudaError_t gemm_bf16_launch(const GemmCall& gemm, cudaStream_t stream) {
  if (!gemm_valid(gemm, 8)) return cudaErrorInvalidValue;
  if (gemm_empty(gemm)) return cudaSuccess;
  return gemm.output == GemmOutput::fp32 ? launch<float>(gemm, stream) : launch<__nv_bfloat16>(gemm, stream);
}

}  // namespace mxcheck_kernels::sm90
