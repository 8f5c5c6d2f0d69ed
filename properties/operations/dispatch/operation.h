#pragma once
// dispatch: rows of tokens to the ranks of their experts. combine: each token's rows back, added up. In process: a call
// has the tensors of all ranks.

#include <cstdint>
#include <memory>
#include <vector>

#include "properties/core/law.h"
#include "properties/core/operation.h"
#include "properties/operations/dispatch/fields.h"

namespace mxcheck {

OperationModule dispatch_module();

// Error{usage} for a case that no call could pose.
void check_routed(const Case& c);
// After rows have changed: ranks end where the tokens do, a token has no more slots than there are experts.
void fit_routed(Case& c);

// `ranks`: tokens of each.
Case routed_corner(const Variant& v, const std::vector<std::int64_t>& ranks, std::int64_t cols, DispatchCase own,
                   Data data, std::uint64_t seed);

std::unique_ptr<Domain> routed_domain(const DomainRequest& request);
std::vector<Case> simpler_routed(const Case& c, const Finding& finding);
std::vector<InvalidCall> invalid_routed();

// A case of aggregate without tokens, rows and columns, with the data and seed of this one.
Case as_aggregation_case(const Case& c);

// Rows that are moved or added up, in elements.
std::int64_t routed_work(const Case& c);

std::vector<Statement> routed_equality_statements();
std::vector<Statement> routed_law_statements();

}  // namespace mxcheck
