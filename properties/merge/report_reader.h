#pragma once
// The output of mxcheck gate --json, read back as a report.
//
// Does not read soaks. Of a counterexample all comes back that a report prints, not the words of the elements that
// differ.
//
// Errors: Error{input} that begins with `where`, for whatever is no such report, is of another mxcheck's statements or
// operations, or holds a number that cannot be.

#include <string>
#include <string_view>

#include "properties/gate/gate.h"

namespace mxcheck {

GateReport report_from_json(std::string_view text, const std::string& where);

}  // namespace mxcheck
