#pragma once
// Rows sorted by expert (stable in the token), and the inverse map. docs/router.md has the definition.
//
//   route_metadata(routes.experts, routes.top_k, {}, experts, 128).row_token   // the gather index of a grouped GEMM

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

// Slots are the routes in the order in which they are given, token after token. Rows are the same by expert.
struct RouteMetadata {
  std::vector<std::int32_t> counts;     // [experts] routes of the expert
  std::vector<std::int64_t> offsets;    // [experts + 1] first row of each expert, a multiple of tile; last: rows in all
  std::vector<std::int32_t> row_slot;   // [capacity] -1 for padding, and after the last row
  std::vector<std::int32_t> row_token;  // [capacity] the same
  std::vector<std::int32_t> row_expert;  // [capacity] the same
  std::vector<std::int32_t> slot_row;    // [slots] -1 for a route that was dropped
};

// Rows that outputs have room for: slots + experts * (tile - 1).
std::int64_t metadata_capacity(std::int64_t slots, std::int64_t experts, std::int64_t tile);

// slot_experts: the expert of each slot, -1 for a dropped route. token_offsets, [tokens + 1]: slots of each token;
// empty: every token has `width` slots. tile 1: no padding.
//
// Errors: Error{usage} for a tile of 0, a number of slots that `width` does not divide, or more rows than int32 counts;
// Error{input} for an expert outside [-1, experts) or offsets that are not ascending from 0 to the number of slots,
// naming the first.
RouteMetadata route_metadata(std::span<const std::int32_t> slot_experts, std::int64_t width,
                             std::span<const std::int64_t> token_offsets, std::int64_t experts, std::int64_t tile);

}  // namespace mxcheck
