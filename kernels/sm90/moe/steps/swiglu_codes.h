#pragma once
// SwiGLU and its gradient with codes of their results in blocks of 1 x 128, as steps.

#include "kernels/sm90/moe/steps/codes.h"

namespace mxcheck_kernels::sm90 {

// A [routed, n] of H in BF16; where the recipe keeps H in E5M6, that too.
void add_swiglu_codes(const MoeCoder& coder, const std::uint16_t* h, const MoeCodes& a);

// dH along its rows, dH and A' along tokens, and dS: of P [routed, n] in FP32. In one step where a tile of 128 rows can
// be made whole, else with steps for what lies along tokens.
struct CodedGradients {
  MoeCodes dh;
  MoeCodes dh_columns;
  MoeCodes a_columns;
};
void add_swiglu_backward_codes(const MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to);

}  // namespace mxcheck_kernels::sm90
