#pragma once
// Rows of tokens in the order of their experts, as a GEMM that takes no row index reads them: a copy.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct GatherJob {
  const std::uint16_t* x = nullptr;
  const std::int32_t* index = nullptr;  // row i is row index[i] of x
  std::uint16_t* out = nullptr;         // rows x cols
  std::int64_t cols = 0;
  std::int64_t experts = 1;
  TiledRows rows;
};

// cols is a multiple of 8, x and out are aligned to 16 bytes.
cudaError_t launch_gather(const GatherJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
