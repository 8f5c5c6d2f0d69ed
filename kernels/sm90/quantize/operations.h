#pragma once
// The operations of the table: each validates a call and enqueues its kernels. All throw Refusal.

#include <cstdint>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm90 {

std::uint64_t workspace_bytes(const mxcheck_call& call, int inputs);

void run_quantize(const mxcheck_call& call);
void run_quantize_dual(const mxcheck_call& call);
void run_dequantize(const mxcheck_call& call);
void run_scale_layout(const mxcheck_call& call);
void run_cast(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm90
