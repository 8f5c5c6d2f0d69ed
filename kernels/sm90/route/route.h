#pragma once
// "route" and "route_backward". All throw Refusal.

#include <cstdint>

#include "kernels/candidate_route.h"

namespace mxcheck_kernels::sm90 {

void route_supports(const mxcheck_policy* policy, DLDataType type);
std::uint64_t route_workspace(const mxcheck_call& call);
void route_run(const mxcheck_call& call);

void backward_supports(const mxcheck_policy* policy, DLDataType type);
std::uint64_t backward_workspace(const mxcheck_call& call);
void backward_run(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
