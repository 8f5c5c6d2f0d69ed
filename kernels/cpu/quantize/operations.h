#pragma once
// The operations, as the table has them: check the call, then do it. Throw Refusal before the first output byte, and
// std::bad_alloc likewise.

#include "kernels/candidate.h"

namespace mxcheck_kernels::cpu {

void run_quantize(const mxcheck_call& call);
void run_quantize_dual(const mxcheck_call& call);
void run_dequantize(const mxcheck_call& call);
void run_scale_layout(const mxcheck_call& call);
void run_cast(const mxcheck_call& call);

}  // namespace mxcheck_kernels::cpu
