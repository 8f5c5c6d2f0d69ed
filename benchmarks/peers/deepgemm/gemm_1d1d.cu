// Instances of DeepGEMM's sm90_fp8_gemm_1d1d_impl: blocks of 1x128 on both sides, FP32 D += C by a reduction of the TMA
// unit.

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <deep_gemm/impls/sm90_fp8_gemm_1d1d.cuh>

#include "benchmarks/peers/deepgemm/launch.cuh"
#include "benchmarks/peers/deepgemm/shapes.h"

namespace mxcheck_peers::deepgemm {

template <const auto& kShapes, std::size_t kAt>
cudaError_t launch_1d1d(const Operands& o, cudaStream_t stream) {
  constexpr Shape s = kShapes[kAt];
  constexpr Configuration c = configuration_of(s);
  constexpr bool depth = s.kind == Kind::depth;
  // DeepGEMM compiles m and n in where groups lie along k, n and k elsewhere.
  constexpr auto kernel = &deep_gemm::sm90_fp8_gemm_1d1d_impl<
      (depth ? s.m : 0), s.n, (depth ? 0 : s.k), s.groups, c.block_m, c.block_n, kBlockK, kBlockK, kBlockK, c.stages,
      kLoadThreads, c.math_threads(), c.cluster(), (c.cluster_n > 1), kProcessors,
      (depth ? deep_gemm::GemmType::KGroupedContiguous : deep_gemm::GemmType::Normal), float>;
  constexpr std::int64_t blocks = ceil_div(s.k, kBlockK);
  constexpr int k = s.k / s.groups;  // of the maps that the kernel writes a group's own columns into
  constexpr int kWarpgroupRows = 64;
  CUtensorMap a{};
  CUtensorMap b{};
  CUtensorMap d{};
  CUtensorMap scale_a{};
  CUtensorMap scale_b{};
  cudaError_t e = make_map(a, codes(o.a, s.m, k), c.block_m, kBlockK, kBlockK);
  if (e == cudaSuccess) e = make_map(b, codes(o.b, s.n, k), c.block_n, kBlockK, kBlockK);
  if (e == cudaSuccess) {
    e = make_map(d, {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, o.d, std::int64_t{s.m} * s.groups, s.n}, kWarpgroupRows,
                 c.block_n, 0);
  }
  if (e == cudaSuccess) e = make_map(scale_a, lines_of_scales(o.scale_a, s.m, blocks), 1, c.block_m, 0);
  if (e == cudaSuccess) e = make_map(scale_b, lines_of_scales(o.scale_b, s.n, blocks), 1, c.block_n, 0);
  if (e != cudaSuccess) return e;
  const auto fp8 = [](const void* data) { return static_cast<__nv_fp8_e4m3*>(const_cast<void*>(data)); };
  return launch(kernel, c, stream, fp8(o.a), fp8(o.b), const_cast<std::int32_t*>(o.groups),
                static_cast<cute::TmaDescriptor*>(o.tensor_maps), s.m, s.n, s.k, a, b, scale_a, scale_b, d);
}

template <const auto& kShapes>
constexpr auto instances_1d1d() {
  return []<std::size_t... kAt>(std::index_sequence<kAt...>) {
    return std::array{Instance{kShapes[kAt], configuration_of(kShapes[kAt]), &launch_1d1d<kShapes, kAt>}...};
  }
  (std::make_index_sequence<kShapes.size()>());
}

std::span<const Instance> depth_instances() {
  static constexpr auto kAll = instances_1d1d<kDepthShapes>();
  return kAll;
}
std::span<const Instance> sum_instances() {
  static constexpr auto kAll = instances_1d1d<kSumShapes>();
  return kAll;
}

}  // namespace mxcheck_peers::deepgemm
