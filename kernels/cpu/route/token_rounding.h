#pragma once
// From token choice to rows by expert and rows by token, under every rule of docs/router.md.

#include <cstdint>

#include "kernels/cpu/route/policy.h"

namespace mxcheck_kernels::cpu {

struct TokenRoundingJob {
  const mxcheck_route_policy* policy = nullptr;
  RoutePlan plan;
  const std::int32_t* choices = nullptr;  // [tokens][top_k]
  const float* weights = nullptr;         // [tokens][top_k], of the rule `none`
  const float* scores = nullptr;          // [experts][score_stride], of all other rules
  std::int64_t score_stride = 0;          // of the tokens
  std::int64_t capacity = 0;              // rows that there is room for
  std::int32_t* chosen = nullptr;         // outputs from here on: kernels/candidate_route.h
  std::int64_t* offsets = nullptr;
  std::int32_t* row_token = nullptr;
  float* row_weight = nullptr;
  std::int64_t* token_offsets = nullptr;
  std::int32_t* token_rows = nullptr;
};

// Takes all memory before it writes an output.
void round_tokens(const TokenRoundingJob& job);

}  // namespace mxcheck_kernels::cpu
