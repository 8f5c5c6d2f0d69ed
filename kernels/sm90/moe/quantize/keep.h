#pragma once
// H as dsv3_pow2 keeps it: E5M6 in blocks of 1 x 128, scales E8M0 rceil, eight codes in three words
// (kernels/candidate_moe.h), and back to BF16, which holds every value that BF16 was rounded to E5M6.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

struct KeepJob {
  const std::uint16_t* h = nullptr;  // rows x cols
  std::uint8_t* packed = nullptr;    // rows x 12 * ceil(cols / 8), aligned to 4 bytes
  std::uint8_t* scales = nullptr;    // rows x ceil(cols / 128)
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // a multiple of 8
  const PlanHeader* header = nullptr;
};
cudaError_t launch_keep(const KeepJob& job, cudaStream_t stream);

struct RestoreJob {
  const std::uint8_t* packed = nullptr;
  const std::uint8_t* scales = nullptr;
  std::uint16_t* h = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const PlanHeader* header = nullptr;
};
cudaError_t launch_restore(const RestoreJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
