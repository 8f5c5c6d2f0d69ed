#include "benchmarks/peers/deepgemm/gemm_1d2d.cuh"
#include "benchmarks/peers/deepgemm/shapes.h"

namespace mxcheck_peers::deepgemm {

std::span<const Instance> masked_instances() {
  static constexpr auto kAll = instances_1d2d<kMaskedShapes>();
  return kAll;
}

}  // namespace mxcheck_peers::deepgemm
