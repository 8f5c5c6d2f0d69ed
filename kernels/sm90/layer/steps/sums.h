#pragma once
// The last levels of pairwise sums over rows: sums of parts of a row, whose number of columns is a power of two, to one
// for each row.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct SumsJob {
  const float* sums = nullptr;  // [parts][rows]
  std::int64_t parts = 0;       // 2 or more
  std::int64_t rows = 0;
  float* out = nullptr;
  const PlanHeader* header = nullptr;
};
cudaError_t add_sums(const SumsJob& job, cudaStream_t stream);

// Bytes of the sums of parts of `columns` columns; none where one part is the row.
constexpr std::uint64_t sums_bytes(std::int64_t rows, std::int64_t n, std::int64_t columns) {
  const std::int64_t parts = (n + columns - 1) / columns;
  return parts < 2 ? 0 : static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(parts) * sizeof(float);
}

}  // namespace mxcheck_kernels::sm90
