#pragma once
// The check of those of a matmul's arguments that only the device can read, made there before anything is written.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm90 {

struct CheckJob {
  const std::int64_t* offsets = nullptr;  // experts + 1, from 0 to end, none descending; null: none
  std::int64_t experts = 0;
  std::int64_t end = 0;
  std::int64_t multiple = 1;  // that every group's beginning must be of
  // Columns of scales: each group has one for every `block` columns that it has or has begun, `blocks` in all. 0: none.
  std::int64_t block = 0;
  std::int64_t blocks = 0;
  std::int64_t* starts = nullptr;       // experts + 1: each group's first, and their number
  const std::int32_t* index = nullptr;  // rows values from 0 to source_rows - 1; null: none
  std::int64_t rows = 0;
  std::int64_t source_rows = 0;
  mxcheck_device_report* report = nullptr;
};

// In the workspace: status is 0 where everything is right.
struct CheckResult {
  unsigned long long first;  // index of the first error: offsets, the number of blocks, then the row index
  std::int32_t status;
};
inline constexpr std::uint64_t kCheckBytes = 256;

cudaError_t launch_check(const CheckJob& job, CheckResult* result, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
