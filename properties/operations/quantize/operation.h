#pragma once
// quantize: x to codes and scales. quantize_dual: the same for rows and for columns, from one read.

#include "properties/core/operation.h"

namespace mxcheck {

OperationModule quantize_module();

// The families of its statements (equality.cc, algebra.cc, layout.cc).
std::vector<Statement> quantize_equality_statements();
std::vector<Statement> quantize_algebra_statements();
std::vector<Statement> quantize_layout_statements();

}  // namespace mxcheck
