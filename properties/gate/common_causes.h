#pragma once
// One fault makes several statements fail, and each names what explains its own cases: the same row, where it explains
// all of them.
//
//   prefer_common_causes(report.statements);   // after all statements, so that no result depends on their order in
//   time

#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {

// The causes of the first failing statement about an operation that explain most of the others are named in each
// statement that they explain: in place of none, and of other causes unless those alone need no rule.
void prefer_common_causes(std::vector<StatementResult>& results);

}  // namespace mxcheck
