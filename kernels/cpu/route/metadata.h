#pragma once
// Rows sorted by expert, each expert's from a multiple of the tile on, and the inverse map.

#include <cstdint>

namespace mxcheck_kernels::cpu {

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

}  // namespace mxcheck_kernels::cpu
