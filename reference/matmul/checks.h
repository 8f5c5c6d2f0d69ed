#pragma once
// Whether a matmul's operands, scales, groups and contract fit one another. Errors: Error{usage} naming what does not,
// and what would.

#include "reference/matmul/matmul.h"

namespace mxcheck {

void check_matmul(const Matmul& m);

}  // namespace mxcheck
