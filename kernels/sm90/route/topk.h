#pragma once
// Token choice, by two kernels: lists of 8, 16 or 32 kept by four lanes a row, and one warp a row otherwise.
// topk() of route_call.h takes the one that a router needs.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/route/route_call.h"

namespace mxcheck_kernels::sm90 {

struct TopkJob {
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

// True if four lanes a row are enough.
inline bool is_listed(const Router& r) { return r.groups == 0 && r.top_k <= kMostListed; }

// The router's own fields of a job.
TopkJob topk_job(const Router& router, std::int32_t* experts, float* weights);

// Four lanes a row (topk_quad.cuh): top_k up to kMostListed, no groups.
cudaError_t topk_quad_bf16(const TopkJob& job, cudaStream_t stream);
cudaError_t topk_quad_fp32(const TopkJob& job, cudaStream_t stream);
// A warp a row: everything.
cudaError_t topk_warp(const TopkJob& job, cudaStream_t stream);

// Token choice that refuses NaN and reads the logits once: what is chosen goes to the workspace, and from there to the
// outputs where the last row has been seen without a NaN. Experts and weights are a few bytes of a row; the logits,
// which a check before would read as well, are most.
//
// kCheckBytes for the CheckResult, then experts and weights.
std::uint64_t staged_bytes(std::int64_t slots);

// True if a router's rows can be looked at while they are chosen from: whole groups of 8, aligned, listed.
bool can_be_staged(const Router& router);

// Enqueues check and choice of a router for which can_be_staged. `workspace`: staged_bytes(), at a multiple of 256.
cudaError_t topk_staged(const Router& router, std::int32_t* experts, float* weights, void* workspace,
                        mxcheck_device_report* report, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
