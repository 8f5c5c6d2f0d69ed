#pragma once
// Codes along tokens, transposed: what a GEMM with groups along depth reads.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/coding.h"
#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct ColumnCodes {
  std::uint8_t* codes = nullptr;  // [columns, rows]; null: not written
  void* scales = nullptr;         // [columns, bands]
  std::int64_t bands = 0;
  DeviceCoding coding;
};

struct TransposeJob {
  const void* x = nullptr;
  Dtype dtype = Dtype::bf16;
  std::int64_t stride = 0;              // elements from row to row
  const std::int32_t* index = nullptr;  // row i is row index[i] of x; null: row i
  std::int64_t cols = 0;
  TiledRows rows;
  ColumnCodes out;
};

// vector: 8 neighbours of x in BF16 are one aligned load, and cols is a multiple of 8.
cudaError_t launch_transpose(const TransposeJob& job, bool vector, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
