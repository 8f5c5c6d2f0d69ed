#pragma once
// Parses a policy; throws Refusal for anything that this library does not support.

#include "kernels/common/quantize/policy.h"

namespace mxcheck_kernels::cpu {

// Throws Refusal as read_quantize_policy() does.
QuantizePolicy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type);

}  // namespace mxcheck_kernels::cpu
