#include "kernels/sm90/gemm/kernel.cuh"

#include <algorithm>
#include <limits>

#include "kernels/sm90/gemm/tiles.h"

namespace mxcheck_kernels::sm90 {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// cuTensorMapEncodeTiled of the driver that the runtime has loaded, null if it has none: nothing here links to libcuda.
EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const auto e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    const bool ok = e == cudaSuccess && found == cudaDriverEntryPointSuccess;
    return ok ? reinterpret_cast<EncodeTiled>(entry) : nullptr;
  }();
  return function;
}

bool fits(std::int64_t value) { return value >= 0 && value <= std::numeric_limits<std::int32_t>::max(); }

CUtensorMapDataType map_type(int bytes) {
  return bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

}  // namespace

int box_rows_of(std::int64_t rows, int tile_rows) {
  return static_cast<int>(std::min<std::int64_t>((rows + 7) / 8 * 8, tile_rows));
}

cudaError_t encode_map(CUtensorMap& map, CUtensorMapDataType type, int bytes, const void* data, std::int64_t cols,
                       std::int64_t rows, std::int64_t matrices, int box_rows, int box_bytes) {
  const EncodeTiled function = encode_tiled();
  if (function == nullptr) return cudaErrorNotSupported;
  const auto size = static_cast<cuuint64_t>(bytes);
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows),
                               static_cast<cuuint64_t>(matrices)};
  const cuuint64_t pitch = sizes[0] * size;
  const cuuint64_t strides[2] = {pitch, pitch * sizes[1]};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(box_bytes / bytes), static_cast<cuuint32_t>(box_rows), 1};
  const auto swizzle = box_bytes == 32   ? CU_TENSOR_MAP_SWIZZLE_32B
                       : box_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                         : CU_TENSOR_MAP_SWIZZLE_128B;
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult result =
      function(&map, type, 3, const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

bool matmul_valid(const MatmulCall& matmul, int multiple) {
  if (!fits(matmul.m) || !fits(matmul.n) || !fits(matmul.k) || !fits(matmul.a_rows) || matmul.k % multiple != 0)
    return false;
  if (matmul.experts < 0 || (matmul.accumulate && matmul.c == nullptr && matmul.m != 0 && matmul.n != 0)) return false;
  if (matmul.kind != MatmulKind::dense && matmul.experts > 0 && matmul.offsets == nullptr) return false;
  const bool masked = matmul.kind == MatmulKind::masked;
  if ((matmul.kind == MatmulKind::depth || masked) && matmul.row_index != nullptr) return false;
  if (masked && matmul.experts > 0 && matmul.m % matmul.experts != 0) return false;
  if (matmul.transposed && matmul.kind != MatmulKind::dense) return false;
  // Units of tiles are numbered in 32 bits. The bound is one of tiles of 128 x 128: of 64 x 32 there are eight times as
  // many, more than 2^32 of which would need a D of 2^43 elements.
  const std::int64_t experts = matmul.kind == MatmulKind::dense ? 1 : matmul.experts;
  const std::int64_t cols = matmul.n / 128 + 1;
  const std::int64_t rows = matmul.m / 128 + 1;
  const std::int64_t all_rows = matmul.kind == MatmulKind::rows || masked ? rows + experts : rows * experts;
  return all_rows <= std::numeric_limits<std::int32_t>::max() / cols;
}

bool matmul_empty(const MatmulCall& matmul) {
  return matmul.m == 0 || matmul.n == 0 || (matmul.kind != MatmulKind::dense && matmul.experts == 0);
}

cudaError_t matmul_prepare_output(const MatmulCall& matmul, int stage_columns, int d_row_bytes, MatmulMaps& maps,
                                  MatmulJob& job) {
  const bool grouped = matmul.kind != MatmulKind::dense;
  job.kind = matmul.kind;
  job.accumulate = matmul.accumulate;
  job.experts = grouped ? matmul.experts : 1;
  job.capacity = matmul.kind == MatmulKind::masked ? static_cast<int>(matmul.m / matmul.experts) : 0;
  job.m = static_cast<int>(matmul.m);
  job.n = static_cast<int>(matmul.n);
  job.kblocks = static_cast<int>((matmul.k + stage_columns - 1) / stage_columns);
  job.k = matmul.k;
  job.alpha = matmul.alpha, job.alpha_at = matmul.alpha_at;
  job.a = static_cast<const std::uint8_t*>(matmul.a);
  job.c = matmul.accumulate ? matmul.c : nullptr;
  job.d = matmul.d;
  job.offsets = grouped ? matmul.offsets : nullptr;
  job.row_index = matmul.row_index;
  job.status = matmul.status;

  maps = {};
  const bool bf16 = matmul.output == MatmulOutput::bf16;
  const int bytes = bf16 ? 2 : 4;
  const auto aligned = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  const std::int64_t d_rows = matmul.transposed ? matmul.n : matmul.m;
  const std::int64_t d_cols = matmul.transposed ? matmul.m : matmul.n;
  job.d_aligned = aligned(matmul.d) && d_cols * bytes % 16 == 0;
  job.d_tiled = job.d_aligned && aligned(job.c);
  if (!job.d_tiled) return cudaSuccess;
  const std::int64_t d_matrices = matmul.kind == MatmulKind::depth ? matmul.experts : 1;
  const auto type = bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if (job.c != nullptr) {
    const auto e = encode_map(maps.c, type, bytes, job.c, d_cols, d_rows, d_matrices, kChunkRows, d_row_bytes);
    if (e != cudaSuccess) return e;
  }
  return encode_map(maps.d, type, bytes, matmul.d, d_cols, d_rows, d_matrices, kChunkRows, d_row_bytes);
}

cudaError_t matmul_prepare(const MatmulCall& matmul, int a_bytes, int b_bytes, const MatmulBoxes& boxes,
                           MatmulMaps& maps, MatmulJob& job) {
  if (const auto e = matmul_prepare_output(matmul, boxes.columns, boxes.d_row_bytes, maps, job); e != cudaSuccess) {
    return e;
  }
  if (matmul.k == 0) return cudaSuccess;
  if (matmul.row_index == nullptr) {
    const int rows = box_rows_of(matmul.m, boxes.a_rows);
    const int row_bytes = boxes.columns * a_bytes / boxes.a_codes_in_byte;
    const auto e = encode_map(maps.a, map_type(a_bytes), a_bytes, matmul.a, matmul.k / boxes.a_codes_in_byte, matmul.m,
                              1, rows, row_bytes);
    if (e != cudaSuccess) return e;
    job.a_bytes = rows * row_bytes;
  }
  const bool has_matrices = matmul.kind == MatmulKind::rows || matmul.kind == MatmulKind::masked;
  const std::int64_t b_matrices = has_matrices ? matmul.experts : 1;
  const int rows = box_rows_of(matmul.n, boxes.b_rows);
  job.b_bytes = rows * kRowBytes;
  return encode_map(maps.b, map_type(b_bytes), b_bytes, matmul.b, matmul.k, matmul.n, b_matrices, rows);
}

MatmulTiles chosen_tiles(const MatmulCall& matmul, MatmulKernel kernel) {
  if (matmul.tiles != MatmulTiles::chosen) return matmul.tiles;
  int device = 0;
  int processors = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return tiles_of(kernel).front().tiles;  // the launch will say why
  }
  return cheapest_tiles(matmul, kernel, processors);
}

}  // namespace mxcheck_kernels::sm90
