#pragma once
// "route_round": token choice, counts, ranking, rounding and metadata. All throw Refusal.

#include <cstdint>

#include "kernels/candidate_route.h"

namespace mxcheck_kernels::sm90 {

void token_rounding_supports(const mxcheck_policy* policy, DLDataType type);
std::uint64_t token_rounding_workspace(const mxcheck_call& call);
void token_rounding_run(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
