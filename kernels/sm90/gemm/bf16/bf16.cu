#include <type_traits>

#include "kernels/sm90/gemm/bf16/bf16.cuh"
#include "kernels/sm90/gemm/tile/choice.h"

namespace mxcheck_kernels::sm90 {
namespace {

template <MatmulTiles kTiles, class Out>
struct Bf16Tiles;
// Where D is FP32, C is read and D written in eight chunks: four slots and three stages are 1 to 2 % faster than two
// and four (4 groups of k = 4096, 4096 x 7168). Of BF16 there are four chunks, and it makes no difference.
template <class Out>
struct Bf16Tiles<MatmulTiles::m128n256, Out> {
  using Shape = Bf16Shape<256, 1, std::is_same_v<Out, float> ? 4 : 2>;
};
template <class Out>
struct Bf16Tiles<MatmulTiles::m128n128, Out> {
  using Shape = Bf16Shape<128, 1>;
};
template <class Out>
struct Bf16Tiles<MatmulTiles::m128n64, Out> {
  using Shape = Bf16Shape<64, 1, 1>;
};
template <class Out>
struct Bf16Tiles<MatmulTiles::m64n128, Out> {
  using Shape = Bf16Shape<128, 1, 2, 1>;
};
template <class Out>
struct Bf16Tiles<MatmulTiles::m64n64, Out> {
  using Shape = Bf16Shape<64, 1, 1, 1>;
};
template <class Out>
struct Bf16Tiles<MatmulTiles::m64n32, Out> {
  using Shape = Bf16Shape<32, 1, 1, 1>;
};
constexpr int kRaster = 16;

template <class Out>
cudaError_t launch(const MatmulCall& matmul, cudaStream_t stream) {
  return with_tiles<kBf16Costs>(chosen_tiles(matmul, kBf16Costs, kRowBytes / 2), [&](auto tiles) {
    return matmul_bf16_start<typename Bf16Tiles<tiles.value, Out>::Shape, Out>(matmul, kRaster, stream);
  });
}

}  // namespace

cudaError_t matmul_bf16_launch(const MatmulCall& matmul, cudaStream_t stream) {
  if (matmul_empty(matmul)) return cudaSuccess;
  if (!matmul_valid(matmul, 8)) return cudaErrorInvalidValue;
  return matmul.output == MatmulOutput::fp32 ? launch<float>(matmul, stream) : launch<__nv_bfloat16>(matmul, stream);
}

}  // namespace mxcheck_kernels::sm90
