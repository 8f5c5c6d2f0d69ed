#pragma once
// How far a run's verdict reaches: what the candidate's limits left out, what the suite cannot see, what a soak bounds.

#include <string>
#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {

// "rows to 40, columns to 100, rows in multiples of 48"; empty for an operation without limits.
std::string limits_text(const OperationInfo& operation);

// Kinds of faults that a run of this suite would have met by luck alone, each with the option that looks for it.
// Empty for a case that was reproduced.
std::vector<std::string> not_seen(const GateReport& report);

// Calls, failures, and the rate of failures that is excluded when there were none. Empty: no soak.
std::string soak_text(const GateReport& report);

}  // namespace mxcheck
