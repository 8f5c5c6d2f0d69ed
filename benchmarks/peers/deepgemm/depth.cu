#include "benchmarks/peers/deepgemm/gemm_1d1d.cuh"
#include "benchmarks/peers/deepgemm/shapes.h"

namespace mxcheck_peers::deepgemm {

std::span<const Instance> depth_instances() {
  static constexpr auto kAll = instances_1d1d<kDepthShapes>();
  return kAll;
}

}  // namespace mxcheck_peers::deepgemm
