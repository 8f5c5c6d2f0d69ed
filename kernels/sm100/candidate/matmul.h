#pragma once
// Parses and validates a call of "matmul", as kernels/candidate_matmul.h has it. All throw Refusal.

#include <cstdint>

#include "kernels/candidate_matmul.h"
#include "kernels/sm100/candidate/arguments.h"

namespace mxcheck_kernels::sm100 {

// INVALID for a policy that cannot be read.
const mxcheck_matmul_policy& matmul_policy(const mxcheck_policy* policy);

DLDataType output_type(const mxcheck_call& call);

struct MatmulTensors {
  const mxcheck_matmul_policy* policy = nullptr;
  Checked a, b, scale_a, scale_b, c, d, offsets, index;
  bool adds = false;     // C
  bool gathers = false;  // rows of a by `index`
  std::int64_t experts = 1;
};

// Codes of bytes with E8M0 scales, by the shapes that the policy gives them. The values of offsets and row index too
// are right when this returns.
MatmulTensors read_matmul(const mxcheck_call& call);

}  // namespace mxcheck_kernels::sm100
