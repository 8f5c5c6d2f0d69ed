#pragma once
// The rows of each token, added up in the order of its slots: acc = fma(s, y, acc), or acc + y, from +0, to BF16.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct AggregateJob {
  const std::uint16_t* y = nullptr;
  const float* weights = nullptr;  // null: not weighted
  const std::int64_t* token_offsets = nullptr;
  const std::int32_t* token_rows = nullptr;
  std::uint16_t* o = nullptr;
  std::int64_t tokens = 0;
  std::int64_t cols = 0;
  const PlanHeader* header = nullptr;
};

// vector: 8 neighbours of y and of o are aligned, and cols is a multiple of 8.
cudaError_t launch_aggregate(const AggregateJob& job, bool vector, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
