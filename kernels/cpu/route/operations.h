#pragma once
// The routers' operations, as the table has them (operations.h): check the call, then do it.

#include "kernels/candidate_route.h"

namespace mxcheck_kernels::cpu {

void run_route(const mxcheck_call& call);
void run_route_round(const mxcheck_call& call);
void run_route_metadata(const mxcheck_call& call);
void run_route_backward(const mxcheck_call& call);

}  // namespace mxcheck_kernels::cpu
