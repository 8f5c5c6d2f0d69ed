#pragma once
// Token choice, by two kernels: lists of 8, 16 or 32 kept by four lanes a row, and one warp a row otherwise.

#include <cuda_runtime.h>

#include "kernels/sm90/route/router.h"

namespace mxcheck_kernels::sm90 {

struct ChooseJob {
  Router router;
  std::int32_t* experts = nullptr;          // null: not requested
  float* weights = nullptr;                 // null: not requested
  bool aligned = false;                     // rows_are_aligned()
  bool aligned_bias = false;                // the bias starts at a multiple of 16 bytes
  bool aligned_out = false;                 // experts and weights start at multiples of 16 bytes
  unsigned long long* first_nan = nullptr;  // lowered to the number of a NaN's element; null: not looked for
  std::uint32_t low = 0;  // 2^n - 1, not less than the number of any group's expert, even past the row
};

// Rows start at multiples of 16 bytes and are whole groups of 8.
bool rows_are_aligned(const Router& router);

inline constexpr int kMostListed = 32;

// Whether the kernels for top_k up to kMostListed choose.
inline bool is_listed(const Router& r) { return r.groups == 0 && r.top_k <= kMostListed; }

// The router's own fields of a job.
ChooseJob job_of(const Router& router, std::int32_t* experts, float* weights);

cudaError_t choose_bf16(const ChooseJob& job, cudaStream_t stream);  // top_k up to kMostListed, no groups
cudaError_t choose_fp32(const ChooseJob& job, cudaStream_t stream);
cudaError_t choose_many(const ChooseJob& job, cudaStream_t stream);  // everything

}  // namespace mxcheck_kernels::sm90
