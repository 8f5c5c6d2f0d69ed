#pragma once
// The load-balancing loss of docs/router.md, "Losses", and its gradient. Sums that no order defines are exact: integers
// of units so small that every term is a whole number of them.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

inline constexpr std::int64_t kMostBalanceTokens = std::int64_t{1} << 24;

struct BalanceJob {
  const float* logits = nullptr;         // tokens x experts, finite
  const std::int32_t* counts = nullptr;  // routes of each expert, at least one in all
  std::int64_t tokens = 0;               // at most kMostBalanceTokens
  int experts = 0;                       // at most kMostExperts
  float coefficient = 0;
  float* scores = nullptr;    // tokens x experts: the softmax; with `slope` the gradient is made of it
  float* mean = nullptr;      // experts: scratch
  float* slope = nullptr;     // experts: c_e
  float* loss = nullptr;      // one number
  float* gradient = nullptr;  // tokens x experts; may be `scores`; null: the loss alone
};
cudaError_t launch_balance(const BalanceJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
