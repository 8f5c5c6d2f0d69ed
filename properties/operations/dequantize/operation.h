#pragma once
// dequantize: codes and scales to values.

#include "properties/core/operation.h"

namespace mxcheck {

OperationModule dequantize_module();

}  // namespace mxcheck
