#pragma once
// Where the time went: by statement, and the cases that took longest.

#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {

std::string time_section(const GateReport& report);  // empty where nothing was timed

}  // namespace mxcheck
