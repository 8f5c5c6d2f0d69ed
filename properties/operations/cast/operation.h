#pragma once
// cast: x to codes element by element, as a block of scale 1.

#include "properties/core/operation.h"

namespace mxcheck {

OperationModule cast_module();

}  // namespace mxcheck
