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

// Rows sorted by expert, each expert's from a multiple of the tile on, and the inverse map.

struct MetadataJob {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;  // slots of each token; 0: given by token_offsets
  std::int64_t tile = 1;
  std::int64_t slots = 0;
  std::int64_t capacity = 0;  // rows that there is room for
  std::int32_t threads = 0;
  const std::int32_t* slot_experts = nullptr;
  const std::int64_t* token_offsets = nullptr;
  std::int32_t* counts = nullptr;  // outputs from here on: kernels/candidate_route.h
  std::int64_t* offsets = nullptr;
  std::int32_t* row_slot = nullptr;
  std::int32_t* row_token = nullptr;
  std::int32_t* row_expert = nullptr;
  std::int32_t* slot_row = nullptr;
};

// Takes all memory before it writes an output. Arguments are trusted.
void make_metadata(const MetadataJob& job);

// Token choice becomes rows by expert and rows by token, under every rule of docs/router.md.

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
