#include "kernels/sm90/gemm/bf16/bf16.cuh"

namespace mxcheck_sm90 {
namespace {

// The result does not depend on the shape. The narrow one is for products of few tiles.
using WideShape = Bf16Shape<256, 1>;
using NarrowShape = Bf16Shape<128, 1>;
constexpr int kRaster = 16;

template <class Out>
cudaError_t launch(const GemmCall& gemm, cudaStream_t stream) {
  const std::int64_t wide_tiles = ((gemm.m + 127) / 128) * ((gemm.n + 255) / 256);
  const bool few = gemm.kind == GemmKind::dense && wide_tiles < 132;
  return few ? gemm_bf16_start<NarrowShape, Out>(gemm, kRaster, stream)
             : gemm_bf16_start<WideShape, Out>(gemm, kRaster, stream);
}

}  // namespace

cudaError_t gemm_bf16_launch(const GemmCall& gemm, cudaStream_t stream) {
  if (!gemm_valid(gemm, 8)) return cudaErrorInvalidValue;
  if (gemm_empty(gemm)) return cudaSuccess;
  return gemm.output == GemmOutput::fp32 ? launch<float>(gemm, stream) : launch<__nv_bfloat16>(gemm, stream);
}

}  // namespace mxcheck_sm90
