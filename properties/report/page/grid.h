#pragma once
// Statements by variants: a row a statement, in it a strip an operation, in that a stroke a variant.

#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {

std::string statement_grid(const GateReport& report);

// One bar: how many statements held, failed, are inconclusive, were not offered.
std::string share_bar(const GateReport& report);

}  // namespace mxcheck
