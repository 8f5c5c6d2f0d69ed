// Instances of DeepGEMM's sm90_fp8_gemm_1d2d_impl: blocks of 1x128 of a and 128x128 of b, D in BF16.

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>

#include "benchmarks/peers/deepgemm/launch.cuh"
#include "benchmarks/peers/deepgemm/shapes.h"

namespace mxcheck_peers::deepgemm {

constexpr deep_gemm::GemmType type_of(Kind kind) {
  switch (kind) {
    case Kind::rows: return deep_gemm::GemmType::MGroupedContiguous;
    case Kind::masked: return deep_gemm::GemmType::MGroupedMasked;
    default: return deep_gemm::GemmType::Normal;
  }
}

template <const auto& kShapes, std::size_t kAt>
cudaError_t launch_1d2d(const Operands& o, cudaStream_t stream) {
  constexpr Shape s = kShapes[kAt];
  constexpr Configuration c = configuration_of(s);
  constexpr int kSwizzle = output_swizzle(s.kind, c.block_n);
  constexpr auto kernel =
      &deep_gemm::sm90_fp8_gemm_1d2d_impl<cute::UMMA::Major::K, 0, s.n, s.k, s.groups, c.block_m, c.block_n, kBlockK,
                                          kBlockK, kBlockK, kSwizzle, c.stages, kLoadThreads, c.math_threads(),
                                          c.cluster(), (c.cluster_n > 1), kProcessors, type_of(s.kind),
                                          cutlass::bfloat16_t, deep_gemm::epilogue::transform::EpilogueIdentity>;
  constexpr std::int64_t blocks = ceil_div(s.k, kBlockK);
  constexpr int matrices = s.kind == Kind::masked ? s.groups : 1;  // of a and d
  CUtensorMap a{};
  CUtensorMap b{};
  CUtensorMap d{};
  CUtensorMap scales{};
  const std::int64_t rows = std::int64_t{s.m} * matrices;
  cudaError_t e = make_map(a, codes(o.a, rows, s.k), c.block_m, kBlockK, kBlockK);
  if (e == cudaSuccess) e = make_map(b, codes(o.b, std::int64_t{s.n} * s.groups, s.k), c.block_n, kBlockK, kBlockK);
  if (e == cudaSuccess) {
    e = make_map(d, {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, o.d, rows, s.n}, c.block_m, c.block_n, kSwizzle);
  }
  if (e == cudaSuccess) e = make_map(scales, lines_of_scales(o.scale_a, s.m, blocks * matrices), 1, c.block_m, 0);
  if (e != cudaSuccess) return e;
  return launch(kernel, c, stream, const_cast<float*>(o.scale_b), const_cast<std::int32_t*>(o.groups), s.m, s.n, s.k, a,
                b, d, scales);
}

template <const auto& kShapes>
constexpr auto instances_1d2d() {
  return []<std::size_t... kAt>(std::index_sequence<kAt...>) {
    return std::array{Instance{kShapes[kAt], configuration_of(kShapes[kAt]), &launch_1d2d<kShapes, kAt>}...};
  }
  (std::make_index_sequence<kShapes.size()>());
}

std::span<const Instance> dense_instances() {
  static constexpr auto kAll = instances_1d2d<kDenseShapes>();
  return kAll;
}
std::span<const Instance> rows_instances() {
  static constexpr auto kAll = instances_1d2d<kRowsShapes>();
  return kAll;
}
std::span<const Instance> masked_instances() {
  static constexpr auto kAll = instances_1d2d<kMaskedShapes>();
  return kAll;
}

}  // namespace mxcheck_peers::deepgemm
