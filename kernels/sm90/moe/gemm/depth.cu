// Groups along k.

#include "kernels/sm90/moe/gemm/depth.cuh"
#include "kernels/sm90/moe/gemm/launch.cuh"

namespace mxcheck_kernels::sm90 {
namespace {
template <class Out>
using Tile = DepthByK<ByKShape, Out>;
}  // namespace

cudaError_t start_depth(const MatmulMaps& maps, const MatmulJob& job, MatmulOutput output, cudaStream_t stream) {
  return start_by_k<Tile>(maps, job, output, stream);
}

}  // namespace mxcheck_kernels::sm90
