#pragma once
// Goldens about routers: the kinds route, route_round, route_metadata, route_backward and route_losses of
// properties/goldens/suite.h; and the router of a layer's golden.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "properties/goldens/input.h"
#include "properties/goldens/kind.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

struct RouteGolden {
  InputSpec input;  // logits
  std::vector<const RouterVariant*> variants;
  Router router;            // without variant and bias
  std::vector<float> bias;  // empty: none
  std::vector<TokenRoundingRule> rules;
  TokenRounding token_rounding;  // without rule; route_metadata: its tile
  std::int64_t experts = 0, width = 0;
  std::vector<std::int32_t> slots;
  std::vector<std::int64_t> token_offsets;
  float coefficient = 0;
};

std::vector<const GoldenKind*> router_golden_kinds();

// Definitions and slips for datasets of the kinds route, route_round and route_losses.
Table rows_of_choice(const GoldenTensors& golden, const DatasetInfo& dataset);
Table rows_of_rounding(const GoldenTensors& golden, const DatasetInfo& dataset);
Table rows_of_losses(const GoldenTensors& golden, const DatasetInfo& dataset);

// The gradient of a layer golden's logits from that of each slot's weight, of token choice.
std::vector<float> logits_gradient_of(const GoldenTensors& golden, std::span<const float> slot_gradient);

// ROUTER and one variant; a rule and what it takes where "rules" is there.
void parse_layer_router(JsonObject& o, RouteGolden& route);

// The settings of a golden's router: top_k, groups, groups_kept, nan, scale, and the variant where it has one alone.
Attributes router_attributes(const RouteGolden& route, bool one_variant);

}  // namespace mxcheck
