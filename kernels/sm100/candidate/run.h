#pragma once
// A call, run: operands and scales into the form that TMA and tcgen05 read, then the GEMM; all of it kernels, under the
// emulation.

#include <cstdint>

#include "kernels/candidate.h"

namespace mxcheck_kernels::sm100 {

void check_scaled(const mxcheck_policy* policy, DLDataType type);
std::uint64_t scaled_workspace(const mxcheck_call& call);
void run_scaled(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm100
