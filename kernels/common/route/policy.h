#pragma once
// The names in a router's policy (kernels/candidate_route.h): the variants, and the rules of token rounding.
// docs/router.md defines each to the bit.

#include <cstdint>
#include <string_view>

#include "kernels/candidate_route.h"

namespace mxcheck_kernels {

enum class Score : std::uint8_t { logits, softmax, sigmoid, sqrtsoftplus };  // what experts are chosen by
enum class Weights : std::uint8_t { softmax_of_kept, raw, over_sum, over_sum_plus_tiny, over_tiny_then_sum };

struct RouterVariant {
  std::string_view name;
  Score score;
  Weights weights;
  bool packed = false;  // chosen by numbers that hold the expert's index in their lowest bits
};

enum class TokenRoundingRule : std::uint8_t {
  none,
  nr_f,
  sr_f,
  nr_s,
  balance_f,
  up,
  down,
  nr_even,
  expert_choice,
  capacity_order,
  capacity_score
};

constexpr bool rounds_to_tiles(TokenRoundingRule rule) {
  return rule >= TokenRoundingRule::nr_f && rule <= TokenRoundingRule::nr_even;
}
constexpr bool has_capacity(TokenRoundingRule rule) { return rule >= TokenRoundingRule::expert_choice; }

// All throw Refusal: INVALID for what cannot be read, UNSUPPORTED for a name that is not offered.
const mxcheck_route_policy& route_policy(const mxcheck_policy* policy);
// A router has neither a format, nor blocks, nor scales in a layout.
void require_no_blocks(const mxcheck_policy& policy);
const RouterVariant& router_variant_named(const char* name, bool packed_offered);
TokenRoundingRule token_rounding_rule_named(const char* name);

}  // namespace mxcheck_kernels
