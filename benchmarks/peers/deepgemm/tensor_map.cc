#include "benchmarks/peers/deepgemm/tensor_map.h"

namespace mxcheck_peers::deepgemm {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The function of the driver that the runtime has loaded: nothing here links to libcuda.
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

CUtensorMapSwizzle swizzle_of(int bytes) {
  switch (bytes) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;  // 16 bytes are what a row is interleaved by anyway
  }
}

}  // namespace

cudaError_t make_map(CUtensorMap& map, const Matrix& matrix, int box_rows, int box_cols, int swizzle) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t pitch = sizes[0] * static_cast<cuuint64_t>(matrix.bytes);
  const int width = swizzle != 0 ? swizzle / matrix.bytes : box_cols;
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(width), static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = encode(&map, matrix.type, 2, const_cast<void*>(matrix.data), sizes, &pitch, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace mxcheck_peers::deepgemm
