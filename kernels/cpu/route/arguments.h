#pragma once
// The tensors of a router's call, checked in full before anything is written (arguments.h has what all calls share).

#include <cstdint>

#include "kernels/candidate_route.h"
#include "kernels/cpu/arguments.h"
#include "kernels/cpu/route/policy.h"

namespace mxcheck_kernels::cpu {

// The policy, with the type of the first input. All throw Refusal.
RoutePlan read_router_call(RouteOperation operation, const mxcheck_call& call);

Checked check_logits(const char* name, const DLTensor& tensor, const mxcheck_route_policy& policy, Dtype dtype,
                     Strides strides);
Checked check_matrix(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t rows, std::int64_t cols);
Checked check_vector(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t count);

// Rows that int32 counts.
std::int64_t int32_rows(__int128 rows);

// Every expert is -1 or one of `experts`; of these a token has each once at most; offsets ascend from 0 to `slots`.
void refuse_experts(const char* name, const std::int32_t* values, std::int64_t count, std::int64_t experts);
void refuse_twice(const char* name, const std::int32_t* values, std::int64_t tokens, std::int64_t top_k,
                  std::int64_t experts);
void refuse_token_offsets(const std::int64_t* offsets, std::int64_t tokens, std::int64_t slots);

// The routers' operations, as the table has them (operations.h): check the call, then do it.

void run_route(const mxcheck_call& call);
void run_route_round(const mxcheck_call& call);
void run_route_metadata(const mxcheck_call& call);
void run_route_backward(const mxcheck_call& call);

}  // namespace mxcheck_kernels::cpu
