#pragma once
// "route_metadata": rows by expert from the experts of slots. All throw Refusal.

#include <cstdint>

#include "kernels/candidate_route.h"

namespace mxcheck_kernels::sm90 {

void metadata_supports(const mxcheck_policy* policy, DLDataType type);
std::uint64_t metadata_workspace(const mxcheck_call& call);
void metadata_run(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
