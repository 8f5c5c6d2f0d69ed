#pragma once
// Rows of logits, one token after the other, SIMD, dispatched at run time to the best target of the machine. Arguments
// are trusted: operations.cc has checked them.

#include <cstdint>

#include "kernels/cpu/route/policy.h"
#include "kernels/cpu/route/space.h"

namespace mxcheck_kernels::cpu {

struct LogitRows {
  RoutePlan plan;
  const void* logits = nullptr;
  std::int64_t stride = 0;  // in elements
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  const float* bias = nullptr;  // [experts], or null
};

struct RouteJob {
  LogitRows rows;
  std::int64_t groups = 0;
  std::int64_t groups_kept = 0;
  std::int32_t* chosen = nullptr;  // [tokens][top_k]
  float* weights = nullptr;        // [tokens][top_k]
  float* scores = nullptr;         // [experts][score_stride], or null
  std::int64_t score_stride = 0;   // of the tokens
};

struct BackwardJob {
  LogitRows rows;
  const std::int32_t* experts = nullptr;  // [tokens][top_k], -1 for none
  const float* gradient = nullptr;        // [tokens][top_k]
  void* out = nullptr;                    // [tokens][experts] of the logits' type
};

// The first element of the rows [begin, end) that the plan refuses (of the packed order with the bias added), as row *
// experts + column; -1 for none.
std::int64_t first_refused(const LogitRows& rows, std::int64_t begin, std::int64_t end);

// Choices and weights of the tokens [begin, end). Does not throw.
void route_rows(const RouteJob& job, RowSpace& space, std::int64_t begin, std::int64_t end);

// Gradients of the tokens [begin, end). Does not throw.
void backward_rows(const BackwardJob& job, RowSpace& space, std::int64_t begin, std::int64_t end);

}  // namespace mxcheck_kernels::cpu
