#include "kernels/sm90/gemm/bf16/decoded.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

using Shape = DecodedShape<1>;
constexpr int kRaster = 16;

template <Element kA>
cudaError_t launch(const GemmDecoded& gemm, cudaStream_t stream) {
  return gemm.output == GemmOutput::fp32 ? gemm_decoded_start<Shape, kA, float>(gemm, kRaster, stream)
                                         : gemm_decoded_start<Shape, kA, __nv_bfloat16>(gemm, kRaster, stream);
}

}  // namespace

cudaError_t gemm_decoded_launch(const GemmDecoded& gemm, cudaStream_t stream) {
  if (!gemm_valid(gemm, 32)) return cudaErrorInvalidValue;
  if (gemm_empty(gemm)) return cudaSuccess;
  return gemm.a_format == Element::e4m3 ? launch<Element::e4m3>(gemm, stream) : launch<Element::e5m2>(gemm, stream);
}

}  // namespace mxcheck_kernels::sm90
