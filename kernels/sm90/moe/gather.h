#pragma once
// Rows of tokens in the order of their experts, as a GEMM that takes no row index reads them: a copy. Each token's row
// is read once and written to each of its routed rows.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

// Rows one after the other: those of tokens, and where their copies go.
struct GatherRows {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t row_bytes = 0;
};

struct GatherJob {
  GatherRows values;  // a row is a multiple of 16 bytes, and so are the addresses
  GatherRows scales;  // of codes: any width, 0 for none; addresses are multiples of 4
  std::int64_t tokens = 0;
  const std::int64_t* token_offsets = nullptr;  // of the slots of each token
  const std::int32_t* token_rows = nullptr;     // the row of each slot, or -1
  const PlanHeader* header = nullptr;
};

cudaError_t launch_gather(const GatherJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
