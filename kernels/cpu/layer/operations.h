#pragma once
// The operations of kernels/candidate_layer.h on the host: plain loops, one element after the other, threads over rows.
// A second implementation to compare the reference with, and the control of the faults; not for speed.

#include "kernels/candidate_layer.h"

namespace mxcheck_kernels::cpu {

void run_swiglu(const mxcheck_call& call);
void run_swiglu_backward(const mxcheck_call& call);
void run_aggregate(const mxcheck_call& call);
void run_quantize_transposed(const mxcheck_call& call);

}  // namespace mxcheck_kernels::cpu
