#pragma once
// Expert parallelism: which row of which rank each slot of each token becomes (dispatch), and each token's rows added
// up (combine). The tensors of all ranks are one tensor, one rank's rows below the other's.
//
//   const DispatchPlan plan = plan_dispatch(routes);
//   const std::vector<std::byte> rows = dispatched(plan, x, cols * 2);  // BF16; of codes and of scales likewise
//   const std::vector<std::uint16_t> o = combine(plan, routes, {y, cols, weights});
//
// The rows of an expert are its slots in ascending order, with a capacity the first so many of them; those of a rank
// are those of its experts in ascending order, and ranks follow one another. With a capacity every expert has so many
// rows, and those that no slot fills hold zero bytes. The sum is aggregate()'s, in the order of the slots, so that
// neither the placement of experts nor the number of ranks changes a bit of it.
//
// Errors: Error{usage} for sizes that do not agree, Error{input} for offsets that do not go from 0 to their end, and
// for ranks and experts out of range, naming the first.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

struct RankedRoutes {
  std::span<const std::int64_t> rank_tokens;    // [ranks + 1] of the tokens of each rank
  std::span<const std::int32_t> expert_rank;    // [experts] the rank of each expert
  std::span<const std::int64_t> token_offsets;  // [tokens + 1] of the slots of each token
  std::span<const std::int32_t> slot_experts;   // [slots] -1: dropped by the router
  std::int64_t capacity = 0;                    // rows of each expert; 0: as many as it has slots
  [[nodiscard]] std::int64_t ranks() const { return std::ssize(rank_tokens) - 1; }
  [[nodiscard]] std::int64_t experts() const { return std::ssize(expert_rank); }
};

struct DispatchPlan {
  std::vector<std::int64_t> first_row;  // [experts] where the rows of each expert begin
  std::vector<std::int64_t> counts;     // [ranks x experts] rows that each rank's tokens fill of each expert
  std::vector<std::int32_t> slot_rows;  // [slots] the row of each slot; -1: dropped
  std::vector<std::int32_t> row_token;  // [rows] the token of each row; -1: no slot fills it
  [[nodiscard]] std::int64_t rows() const { return std::ssize(row_token); }
};
DispatchPlan plan_dispatch(const RankedRoutes& routes);

// The rows, each the `row_bytes` bytes of its token.
std::vector<std::byte> dispatched(const DispatchPlan& plan, std::span<const std::byte> x, std::int64_t row_bytes);

struct CombinedRows {
  std::span<const std::uint16_t> y;  // rows x cols, BF16, placed as plan says
  std::int64_t cols = 0;
  std::span<const float> weights;  // of slots; empty: the plain sum
};
std::vector<std::uint16_t> combine(const DispatchPlan& plan, const RankedRoutes& routes, const CombinedRows& from,
                                   int threads = 0);

// The weight of each row, 1 where no slot fills it; none where there are no weights.
std::vector<float> weights_of_rows(const DispatchPlan& plan, std::span<const float> weights);

}  // namespace mxcheck
