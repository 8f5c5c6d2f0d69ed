#pragma once
// The table of quantize_nvfp4: other recipes of two levels, and slips of scales, codes and the scale of the tensor.

#include <span>

#include "properties/core/definitions.h"
#include "properties/operations/nvfp4/problem.h"

namespace mxcheck {

// observed: the candidate's outputs; codes may follow from its own scales. Rows point into the problem.
Table nvfp4_table(const Nvfp4Problem& problem, std::span<const Bytes> observed);

}  // namespace mxcheck
