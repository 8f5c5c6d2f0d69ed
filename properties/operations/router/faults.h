#pragma once
// The router once more, with a switch for each fault that kernels make: what a fault would give, to name the cause of a
// difference. With every switch off it gives what the reference gives, which is a test of both.
//
// Packed order knows two of the switches about choice and weights, larger_index and scale_forgotten; the others do
// nothing there, and what it gives is computed by the reference.

#include <span>
#include <string_view>
#include <vector>

#include "properties/operations/router/definitions.h"
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

// The losses once more, in the same way.
struct LossFaults {
  // Both.
  bool largest_kept = false;
  bool row_one_by_one = false;
  bool tokens_one_by_one = false;
  bool sums_not_means = false;
  bool bf16_probabilities = false;
  bool no_coefficient = false;
  // Load balancing.
  bool no_experts = false;
  bool loads_of_tokens = false;
  bool loads_of_32_bits = false;
  bool loads_have_gradient = false;
  bool no_sum_in_gradient = false;
  bool routed_alone = false;
  bool gradient_of_routed_alone = false;
  // z.
  bool not_squared = false;
  bool base_2 = false;
  bool halved_gradient = false;
  bool largest_alone = false;
  friend bool operator==(const LossFaults&, const LossFaults&) = default;
};

struct LossFault {
  enum class Of : std::uint8_t { both, balance, z } of;
  std::string_view name;
  std::string_view text;
  bool LossFaults::*on;
  std::string_view source = {};
  [[nodiscard]] bool is_of(const RouterLossInputs& inputs) const {
    return of == Of::both || (of == Of::z) == inputs.counts.empty();
  }
};
std::span<const LossFault> all_loss_faults();

// The loss and its gradient with these faults, of the inputs that the reference takes.
RouterLoss model_loss(const RouterLossInputs& of, const LossFaults& faults);

}  // namespace mxcheck
