#pragma once
// route: logits to experts and weights. route_round: to rows of whole tiles. route_metadata: slots to rows.
// route_backward: gradients of the logits.

#include "properties/core/operation.h"
#include "properties/operations/router/fields.h"

namespace mxcheck {

OperationModule router_module();

// Everything that could be asked of one of the four.
std::vector<Variant> askable_routes(const std::string& operation);

// A case of the variant, brought to what can be: groups that divide, k within the experts.
Case route_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Data data,
                  std::uint64_t seed);
void fit_route(Case& c);
std::unique_ptr<Domain> route_domain(const DomainRequest& request);
std::vector<Case> simpler_routes(const Case& c, const Finding& finding);

// Error{usage} for a case that no call could pose.
void check_route(const Case& c);

// A scale, a row stride, more experts of a token than anyone has: what a library may leave out.
bool is_route_option(const Case& c);
std::vector<InvalidCall> invalid_routes();

}  // namespace mxcheck
