#pragma once
// Invalid calls: what a library must refuse, and how a clean refusal looks. conduct.cc makes statements of the checks.

#include <optional>
#include <string>

#include "properties/core/check.h"
#include "properties/core/statement.h"

namespace mxcheck {

// The first output that differs between two calls of a problem, as "NAME SUMMARY"; none where a variant promises no
// bits.
std::optional<Finding> same_outputs(const Problem& p, const CallOutputs& a, const CallOutputs& b,
                                    const std::string& summary);

// Every invalid call of the case's operation, but those whose sizes wrap, is refused and nothing is written.
std::optional<Finding> refuses_cleanly(CheckContext& context, const Case& c);

// The same of sizes that wrap, and of offsets out of order.
std::optional<Finding> refuses_what_wraps(CheckContext& context, const Case& c);

// A call gives the same bytes before and after each invalid one. That the invalid one is refused is another statement's
// affair.
std::optional<Finding> right_after_a_refusal(CheckContext& context, const Case& c);

}  // namespace mxcheck
