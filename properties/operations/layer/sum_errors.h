#pragma once
// Errors of outputs that are sums of a token's rows, compared with the reference's (as_accurate_as:exact): those of
// aggregate, and those of combine, whose sums are the same.
//
//   compares_errors_of_sums(context, c, [](const Problem& p) { return static_cast<const AggregateProblem&>(p); });
//
// Errors are parts of sum |weight * y|. Of a case up to 16 outputs of those that differ from the reference's are
// compared, drawn so that their errors are independent: no two have a column, or a row of Y, in common.

#include <functional>
#include <optional>

#include "properties/core/check.h"
#include "properties/operations/layer/problem.h"

namespace mxcheck {

// The problem of a case as an aggregation; its first output is that of the sums.
using AsSums = std::function<AggregateProblem(const Problem&)>;

// Adds the errors of a call to the statement's ErrorTally.
std::optional<Finding> compares_errors_of_sums(CheckContext& context, const Case& c, const AsSums& as_sums);

}  // namespace mxcheck
