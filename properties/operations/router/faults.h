#pragma once
// The router once more, with a switch for each fault that kernels make: what a fault would give, to name the cause of a
// difference. With every switch off it gives what the reference gives, which is a test of both.
//
// Packed order knows two of the switches about choice and weights, larger_index and scale_forgotten; the others do
// nothing there, and what it gives is computed by the reference.

#include <span>
#include <string_view>
#include <vector>

#include "reference/router/metadata.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

struct RouterFaults {
  // Choosing.
  bool larger_index = false;
  bool zeros_differ = false;
  bool nan_first = false;
  bool last_group_ignored = false;
  // Weights of token choice.
  bool bias_in_weights = false;
  bool largest_not_subtracted = false;
  bool scale_forgotten = false;
  // Rounding.
  bool half_up = false;
  bool weakest = false;
  bool beyond_tokens = false;
  bool chosen_again = false;
  bool sums_of_choice = false;
  // Order of rows.
  bool descending = false;
};

struct RouterFault {
  std::string_view name;
  std::string_view text;
  bool RouterFaults::*on;
};
std::span<const RouterFault> all_router_faults();

Routes model_routes(const Router& router, const MatrixView& logits, const RouterFaults& faults);
RoundedTokens model_rows(const Router& router, const TokenRounding& token_rounding, const MatrixView& logits,
                         const RouterFaults& faults);
// Slots of an expert in descending order.
RouteMetadata metadata_descending(std::span<const std::int32_t> slot_experts, std::int64_t width,
                                  std::span<const std::int64_t> token_offsets, std::int64_t experts, std::int64_t tile);

}  // namespace mxcheck
