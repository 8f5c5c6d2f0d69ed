#pragma once
// route: logits to experts and weights. route_round: to rows of whole tiles. route_metadata: slots to rows.
// route_backward: gradients of the logits. route_balance_loss, route_z_loss: auxiliary losses and their gradients.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/law.h"
#include "properties/core/layers/layers.h"
#include "properties/core/operation.h"
#include "properties/core/rng.h"
#include "properties/operations/router/fields.h"

namespace mxcheck {

OperationModule router_module();

// Everything that could be asked of one of them.
std::vector<Variant> askable_routes(const std::string& operation);

// A case of the variant, brought to what can be: groups that divide, k within the experts.
Case route_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Data data,
                  std::uint64_t seed);
void fit_route(Case& c);
std::unique_ptr<Domain> route_domain(const DomainRequest& request);
std::vector<Case> simpler_routes(const Case& c, const Finding& finding);

// Error{usage} for a case that no call could pose.
void check_route(const Case& c);

// A router whose bias may be infinite: users take experts out of the choice by -Inf.
bool may_mask(const Variant& v);

// A scale, a row stride, more experts of a token than anyone has: what a library may leave out.
bool is_route_option(const Case& c);
std::vector<InvalidCall> invalid_routes();

// Helpers shared by the statements about routers.

// The families (equality.cc, laws.cc, operation.cc).
std::vector<Statement> route_equality_statements();
std::vector<Statement> route_claim_statements(const Statement& equality);
std::vector<Statement> route_law_statements();
std::vector<Statement> route_row_law_statements();
std::vector<Statement> route_loss_law_statements();
std::vector<Statement> route_refusal_statements();

// A statement about drawn cases; what it applies to and its corners are the caller's.
Statement route_law(std::string_view name, std::string_view sentence, LawCheck* check);

// Rounds to tiles.
bool has_tiles(const Variant& v);

// Corner cases of each route_round variant on every run: every count of tokens around two tiles, ties, too few tokens.
std::vector<Case> rounding_corners(const Variant& v, Suite suite);

// Production's layers as the routers' operations meet them: their experts and active experts with every variant, and
// with the layer's own score, bias, groups and scale where the candidate offers those.

class RouteLayers {
 public:
  struct Use {
    std::string layer;
    std::string text;
    const ProductionLayer* dimensions = nullptr;
    bool own_router = false;
  };
  RouteLayers() = default;
  RouteLayers(const OperationInfo& limits, const RouteKind& kind);

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is(const Use& use, const Case& c) const;
  [[nodiscard]] std::optional<Case> at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const;

 private:
  OperationInfo limits_;
  std::vector<Use> uses_;
};

}  // namespace mxcheck
