#pragma once
// How an operation behaves, whatever it computes: within its buffers, the same every time, and clear in its refusals.

#include <vector>

#include "properties/core/statement.h"

namespace mxcheck {

std::vector<Statement> conduct_statements();

}  // namespace mxcheck
