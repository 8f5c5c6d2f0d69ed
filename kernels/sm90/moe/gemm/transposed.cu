#include "kernels/sm90/moe/gemm/transposed.h"

#include "kernels/sm90/moe/gemm/launch.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kRaster = 16;

bool aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; }

bool valid(const MatmulCall& x) {
  const bool rows = x.kind == MatmulKind::rows;
  if (x.kind == MatmulKind::dense || x.accumulate || x.row_index != nullptr || x.n % 8 != 0 || !aligned(x.a) ||
      !aligned(x.b))
    return false;
  return (rows ? x.k : x.m) % 8 == 0 && matmul_valid(x, 1);
}

// Rows of k, columns columns, in boxes of 64 x 64.
cudaError_t encode_by_k(CUtensorMap& map, const void* data, std::int64_t columns, std::int64_t k,
                        std::int64_t matrices) {
  return encode_map(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, columns, k, matrices, kStageK);
}

cudaError_t prepare(const MatmulCall& x, MatmulMaps& maps, MatmulJob& job) {
  if (const auto e = matmul_prepare_output(x, kStageK, kRowBytes, maps, job); e != cudaSuccess) return e;
  job.raster = kRaster;
  if (x.k == 0) return cudaSuccess;
  const bool rows = x.kind == MatmulKind::rows;
  const auto e = rows ? encode_map(maps.a, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, x.a, x.k, x.m, 1, ByKShape::kM)
                      : encode_by_k(maps.a, x.a, x.m, x.k, 1);
  if (e != cudaSuccess) return e;
  return encode_by_k(maps.b, x.b, x.n, x.k, rows ? x.experts : 1);
}

}  // namespace

cudaError_t matmul_transposed_launch(const MatmulCall& x, cudaStream_t stream) {
  if (!valid(x)) return cudaErrorInvalidValue;
  if (matmul_empty(x)) return cudaSuccess;
  MatmulMaps maps;
  MatmulJob job;
  if (const auto e = prepare(x, maps, job); e != cudaSuccess) return e;
  if (x.kind == MatmulKind::rows) return start_rows(maps, job, x.output, stream);
  return start_depth(maps, job, x.output, stream);
}

}  // namespace mxcheck_kernels::sm90
