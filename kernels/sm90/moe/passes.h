#pragma once
// The passes of a layer, by what its GEMMs multiply. Steps are those of docs/layer.md, in its order.

#include "kernels/sm90/moe/call/call.h"
#include "kernels/sm90/moe/plan.h"

namespace mxcheck_kernels::sm90 {

// BF16, through a block format or not.
MoePlan forward_of_values(const MoeCall& call);
MoePlan backward_of_values(const MoeCall& call);

}  // namespace mxcheck_kernels::sm90
