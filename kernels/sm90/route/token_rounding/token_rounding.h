#pragma once
// "route_round": token choice, counts, ranking, rounding and metadata. All throw Refusal.

#include <cstdint>

#include "kernels/candidate_route.h"

namespace mxcheck_sm90 {

void round_supports(const mxcheck_policy* policy, DLDataType wide);
std::uint64_t round_workspace(const mxcheck_call& call);
void round_run(const mxcheck_call& call);

}  // namespace mxcheck_sm90
