#pragma once
// Routes as the layer needs them: rows sorted by expert, and the rows of each token in the order of its slots.
//
//   const LayerRoutes routes = layer_routes(route(router, logits), experts);           // token choice
//   const LayerRoutes rounded = layer_routes(round_tokens(router, rounding, logits));  // token rounding, expert choice
//   route_backward(router, logits, r.experts, slot_gradient(routes, ds), r.top_k);
//
// Errors: those of route_metadata; Error{usage} for sizes that do not agree, Error{input} for rows or tokens out of
// range, naming the first.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

struct LayerRoutes {
  std::vector<std::int64_t> offsets;        // [experts + 1] of the rows of each expert
  std::vector<std::int32_t> row_token;      // [rows] the gather index
  std::vector<float> row_weight;            // [rows] s
  std::vector<std::int64_t> token_offsets;  // [tokens + 1] of the slots of each token
  std::vector<std::int32_t> token_rows;     // [slots] the row of each slot; -1 for a route that was dropped
};

// Slots token after token, `width` each (token_offsets empty) or as token_offsets says; an expert of -1 is dropped.
LayerRoutes layer_routes(std::span<const std::int32_t> slot_experts, std::span<const float> slot_weights,
                         std::int64_t width, std::span<const std::int64_t> token_offsets, std::int64_t experts);
LayerRoutes layer_routes(const Routes& routes, std::int64_t experts);  // slots: best first
LayerRoutes layer_routes(const RoundedTokens& rounded);                // slots: experts ascending

// The gradient of each slot's weight, +0 for a dropped one, from that of each row.
std::vector<float> slot_gradient(const LayerRoutes& routes, std::span<const float> row_gradient);

void check(const LayerRoutes& routes, std::int64_t tokens, std::int64_t experts);

}  // namespace mxcheck
