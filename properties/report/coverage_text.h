#pragma once
// The coverage of the operations' domains by a run, as text.

#include <string>
#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {

// A line for each axis of which bins were met by refused cases alone: what the candidate does not offer, by name.
std::vector<std::string> not_offered(const StatementResult& result);

// Every axis with its bins and how many cases met each, and the pairs of bins: of every statement that was run.
std::string coverage_text(const GateReport& report);

}  // namespace mxcheck
