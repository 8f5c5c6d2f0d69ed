#pragma once
// The last step of a layer, in both directions: each token's rows added up in the order of its slots, in FP32 from +0,
// and rounded to BF16 (docs/layer.md). A token without rows has +0; a NaN is 0x7FFF.
//
//   O:  acc = fma(s, y, acc), s the weight of the row         dX: acc = RN(acc + y)
//
// Errors: Error{usage} for sizes that do not agree, Error{input} for offsets that do not go from 0 to the number of
// slots and for rows out of range, naming the first. Threads (0: the machine's) change nothing but the time.

#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

// The rows that are added up, with their weights.
struct AggregatedRows {
  std::span<const std::uint16_t> y;  // rows x cols, BF16
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const float> weights;  // rows; empty: the plain sum
};
// The rows of each token: as in LayerRoutes (reference/layer/routes.h).
struct TokenSlots {
  std::span<const std::int64_t> token_offsets;  // [tokens + 1] of the slots of each token
  std::span<const std::int32_t> token_rows;     // [slots] the row of each slot; -1 for a route that was dropped
};

void check_aggregation(const AggregatedRows& from, const TokenSlots& slots);
std::vector<std::uint16_t> aggregate(const AggregatedRows& from, const TokenSlots& slots, int threads = 0);

}  // namespace mxcheck
