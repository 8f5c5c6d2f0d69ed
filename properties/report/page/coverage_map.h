#pragma once
// The coverage of each operation's domain: a row an axis, a cell a bin, the darker the larger its share of the cases.

#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {

// A bin that fewer than this share of the operation's cases met is marked.
inline constexpr double kFewCases = 0.01;

// The map of all statements together, operation by operation; empty where nothing was covered.
std::string coverage_map(const GateReport& report);

}  // namespace mxcheck
