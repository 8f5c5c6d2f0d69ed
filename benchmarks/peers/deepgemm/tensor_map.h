#pragma once
// Matrices as the TMA unit takes them.

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace mxcheck_peers::deepgemm {

struct Matrix {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  int bytes = 1;  // of an element
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

// Boxes of box_rows x box_cols; with a swizzle of so many bytes a box is as wide as that, whatever box_cols says.
// cudaErrorNotSupported where the driver has no such function, cudaErrorInvalidValue where it refuses.
cudaError_t make_map(CUtensorMap& map, const Matrix& matrix, int box_rows, int box_cols, int swizzle);

}  // namespace mxcheck_peers::deepgemm
