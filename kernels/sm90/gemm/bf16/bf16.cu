#include "kernels/sm90/gemm/bf16/bf16.cuh"
#include "kernels/sm90/gemm/tile/choice.h"

namespace mxcheck_kernels::sm90 {
namespace {

template <MatmulTiles kTiles>
struct Bf16Tiles;
template <>
struct Bf16Tiles<MatmulTiles::m128n256> {
  using Shape = Bf16Shape<256, 1>;
};
template <>
struct Bf16Tiles<MatmulTiles::m128n128> {
  using Shape = Bf16Shape<128, 1>;
};
template <>
struct Bf16Tiles<MatmulTiles::m128n64> {
  using Shape = Bf16Shape<64, 1, 1>;
};
template <>
struct Bf16Tiles<MatmulTiles::m64n128> {
  using Shape = Bf16Shape<128, 1, 2, 1>;
};
template <>
struct Bf16Tiles<MatmulTiles::m64n64> {
  using Shape = Bf16Shape<64, 1, 1, 1>;
};
constexpr int kRaster = 16;

template <class Out>
cudaError_t launch(const MatmulCall& matmul, cudaStream_t stream) {
  return with_tiles(chosen_tiles(matmul, kBf16Costs, kRowBytes / 2), [&](auto tiles) {
    return matmul_bf16_start<typename Bf16Tiles<tiles.value>::Shape, Out>(matmul, kRaster, stream);
  });
}

}  // namespace

cudaError_t matmul_bf16_launch(const MatmulCall& matmul, cudaStream_t stream) {
  if (matmul_empty(matmul)) return cudaSuccess;
  if (!matmul_valid(matmul, 8)) return cudaErrorInvalidValue;
  return matmul.output == MatmulOutput::fp32 ? launch<float>(matmul, stream) : launch<__nv_bfloat16>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
