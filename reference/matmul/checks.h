#pragma once
// Whether a product's parts fit one another; Error{usage} naming what does not, and what would.

#include "reference/matmul/matmul.h"

namespace mxcheck {

void check_matmul(const Matmul& product);

}  // namespace mxcheck
