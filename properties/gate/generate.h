#pragma once
// Drawing cases, and making a failing case smaller. Both work on descriptors; no tensor is touched.

#include <span>
#include <vector>

#include "properties/core/finding.h"
#include "properties/core/rng.h"
#include "properties/core/statement.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// A random case of a statement for one of the variants; shapes favour block edges, honour the operation's limits, and
// hold at most about 50,000 elements.
Case draw_case(const Statement& statement, std::span<const Variant> variants, const CandidateRunner& process,
               Draw& draw);

// The same for products: rows, cols and depth around edges of tiles, with about 2^24 multiplications at most.
Case draw_product(const Statement& statement, const Variant& variant, const CandidateRunner& process, Draw& draw);
// The variants of all operations of routers weigh, together, as a hundred and sixty others: there are thousands of
// them, and they must not crowd out the rest. Those of routers come last among `variants`.
std::size_t weight_of(std::span<const Variant> variants);
const Variant& draw_variant(std::span<const Variant> variants, Draw& draw);
// Offsets brought to the end that they must have.
void fit_experts(Case& c);

// The case with its extents brought to the operation's multiples and limits; experts and stride follow.
Case within_limits(Case c, const OperationInfo& limits);
bool is_within_limits(const Case& c, const OperationInfo& limits);

// Simpler cases to try in place of a failing one, the boldest first: everything zero but the culprits, halves, fewer
// experts, plainer data. finding is what the case failed with.
std::vector<Case> simpler_cases(const Case& c, const Finding& finding);

}  // namespace mxcheck
