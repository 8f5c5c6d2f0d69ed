#pragma once
// The table of routers (properties/core/definitions.h): other variants and rules, and slips that router kernels are
// known for. The gate asks it, golden verify, and identify, of a black box.
//
//   names_that_explain(answers, choice_definitions(router, logits))
//
// A name is "variant sigmoid" (docs/router.md), "rule nr-even", or what there is in place of the right thing: "ties
// that go to the larger index". Sources are those of docs/router.md. Outputs are the operation's, in its order.
//
// Rows point to the logits, the bias, the routes and the offsets that they were given, and compute when they are asked.

#include <cstdint>
#include <span>
#include <vector>

#include "properties/core/definitions.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

// route: every variant in the router's place, its own too, by its name alone; the router as it is, with one slip each;
// and the two together, as "variant ..." and without its own.
Table router_variants(const Router& router, const MatrixView& logits);
Table choice_slips(const Router& router, const MatrixView& logits);
Table choice_definitions(const Router& router, const MatrixView& logits);

// route_round.
Table rounding_definitions(const Router& router, const TokenRounding& rounding, const MatrixView& logits);

// route_metadata.
Table metadata_definitions(std::span<const std::int32_t> slot_experts, std::int64_t width,
                           std::span<const std::int64_t> token_offsets, std::int64_t experts, std::int64_t tile);

// route_backward: of tokens x top_k experts, with the gradients of their weights.
Table gradient_definitions(const Router& router, const MatrixView& logits, std::span<const std::int32_t> experts,
                           std::span<const float> gradient);

// route_balance_loss; route_z_loss where there are no counts.
struct RouterLossInputs {
  MatrixView logits;
  std::span<const std::int32_t> counts;
  float coefficient = 1;
};
RouterLoss loss_of(const RouterLossInputs& of);
Table loss_definitions(const RouterLossInputs& of);

// The outputs' bytes of answers of the reference, or of a model of a fault.
std::vector<Bytes> bytes_of(const Routes& routes);
std::vector<Bytes> bytes_of(const RoundedTokens& rows);
std::vector<Bytes> bytes_of(const RouteMetadata& metadata);
std::vector<Bytes> bytes_of(const RouterLoss& loss, Format dtype);
// The gradient of the logits, rounded to their type.
std::vector<Bytes> gradient_bytes(Format dtype, const std::vector<float>& gradient);

}  // namespace mxcheck
