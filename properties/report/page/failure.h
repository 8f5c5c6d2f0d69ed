#pragma once
// One failed statement on the page: its pictures, the counterexample as the terminal has it, and the command that meets
// it again.

#include <string>

#include "properties/gate/gate.h"
#include "properties/report/page/page.h"

namespace mxcheck {

std::string failure_section(const GateReport& report, const StatementResult& result, const ExamplePictures& pictures);

}  // namespace mxcheck
