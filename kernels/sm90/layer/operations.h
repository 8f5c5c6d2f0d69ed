#pragma once
// The operations of kernels/candidate_layer.h on Hopper. check_*: throws Refusal for what is not offered; *_workspace:
// bytes of a call, from its shapes alone; run_*: checks the call and enqueues it.

#include <cstdint>

#include "kernels/candidate_layer.h"

namespace mxcheck_kernels::sm90 {

template <bool kBackward>
void check_swiglu(const mxcheck_policy* policy, DLDataType type);
template <bool kBackward>
std::uint64_t swiglu_workspace(const mxcheck_call& call);
template <bool kBackward>
void run_swiglu(const mxcheck_call& call);

void check_aggregate(const mxcheck_policy* policy, DLDataType type);
std::uint64_t aggregate_workspace(const mxcheck_call& call);
void run_aggregate(const mxcheck_call& call);

void check_transpose(const mxcheck_policy* policy, DLDataType type);
std::uint64_t transpose_workspace(const mxcheck_call& call);
void run_transpose(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
