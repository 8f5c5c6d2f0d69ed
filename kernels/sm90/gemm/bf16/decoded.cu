#include "kernels/sm90/gemm/bf16/decoded.cuh"
#include "kernels/sm90/gemm/tile/choice.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kRaster = 16;

template <MatmulTiles kTiles, bool kTransposed>
struct DecodedTiles;
template <bool kTransposed>
struct DecodedTiles<MatmulTiles::m128n256, kTransposed> {
  using Shape = DecodedShape<256, 2, kTransposed>;
};
template <bool kTransposed>
struct DecodedTiles<MatmulTiles::m64n128, kTransposed> {
  using Shape = DecodedShape<128, 1, kTransposed>;
};
template <bool kTransposed>
struct DecodedTiles<MatmulTiles::m64n64, kTransposed> {
  using Shape = DecodedShape<64, 1, kTransposed>;
};

template <bool kTransposed, Element kA, class Out>
cudaError_t launch_tiles(const MatmulDecoded& matmul, cudaStream_t stream) {
  return with_tiles<kDecodedCosts>(chosen_tiles(matmul, kDecodedCosts, kRowBytes / 2), [&](auto tiles) {
    return matmul_decoded_start<typename DecodedTiles<tiles.value, kTransposed>::Shape, kA, Out>(matmul, kRaster,
                                                                                                 stream);
  });
}

template <Element kA, class Out>
cudaError_t launch(const MatmulDecoded& matmul, cudaStream_t stream) {
  return matmul.transposed ? launch_tiles<true, kA, Out>(matmul, stream) : launch_tiles<false, kA, Out>(matmul, stream);
}

template <Element kA>
cudaError_t launch_output(const MatmulDecoded& matmul, cudaStream_t stream) {
  return matmul.output == MatmulOutput::fp32 ? launch<kA, float>(matmul, stream)
                                             : launch<kA, __nv_bfloat16>(matmul, stream);
}

}  // namespace

cudaError_t matmul_decoded_launch(const MatmulDecoded& matmul, cudaStream_t stream) {
  if (!matmul_valid(matmul, 32)) return cudaErrorInvalidValue;
  if (matmul_empty(matmul)) return cudaSuccess;
  return matmul.a_format == Element::e4m3 ? launch_output<Element::e4m3>(matmul, stream)
                                          : launch_output<Element::e5m2>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
