#pragma once
// A policy read: what this library offers, and nothing else gets past here.

#include "kernels/common/quantize/policy.h"

namespace mxcheck_kernels::cpu {

// Throws Refusal as read_quantize_policy() does.
QuantizePolicy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type);

}  // namespace mxcheck_kernels::cpu
