#pragma once
// Rows of tokens in the order of their experts, as a GEMM that takes no row index reads them: a copy. Each token's row
// is read once and written to each of its routed rows.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct GatherJob {
  const std::uint16_t* x = nullptr;  // tokens x cols
  std::int64_t tokens = 0;
  std::int64_t cols = 0;
  const std::int64_t* token_offsets = nullptr;  // of the slots of each token
  const std::int32_t* token_rows = nullptr;     // the row of each slot, or -1
  std::uint16_t* out = nullptr;                 // routed x cols
  const PlanHeader* header = nullptr;
};

// cols is a multiple of 8, x and out are aligned to 16 bytes.
cudaError_t launch_gather(const GatherJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
