#pragma once
// scale_layout: scales from compact to tcgen05's tiles, or back.

#include "properties/core/operation.h"

namespace mxcheck {

OperationModule scale_layout_module();

}  // namespace mxcheck
