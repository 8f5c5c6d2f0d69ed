#include "kernels/sm90/gemm/bf16/decoded.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

using Shape = DecodedShape<1>;
constexpr int kRaster = 16;

template <Element kA>
cudaError_t launch(const MatmulDecoded& matmul, cudaStream_t stream) {
  return matmul.output == MatmulOutput::fp32 ? matmul_decoded_start<Shape, kA, float>(matmul, kRaster, stream)
                                             : matmul_decoded_start<Shape, kA, __nv_bfloat16>(matmul, kRaster, stream);
}

}  // namespace

cudaError_t matmul_decoded_launch(const MatmulDecoded& matmul, cudaStream_t stream) {
  if (!matmul_valid(matmul, 32)) return cudaErrorInvalidValue;
  if (matmul_empty(matmul)) return cudaSuccess;
  return matmul.a_format == Element::e4m3 ? launch<Element::e4m3>(matmul, stream)
                                          : launch<Element::e5m2>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
