#pragma once
// SwiGLU and its gradient as steps in BF16: A, or A', dH and dS of the H that is given.

#include "kernels/sm90/moe/steps/builder.h"

namespace mxcheck_kernels::sm90 {

// H [routed, 2 n], contiguous, as the kernels of layer/steps take it: in BF16, or as it was kept.
HInput bf16_h(const MoeCall& call, const std::uint16_t* h);
HInput kept_h(const MoeCall& call);
// Bytes that are read of H.
std::uint64_t h_bytes(const MoeCall& call, const HInput& h);

// A [routed, n].
void add_swiglu(MoeBuilder& b, const std::uint16_t* h, const Part& a);

// A' [routed, n] and dH [routed, 2 n] in BF16, and dS: of P [routed, n] in FP32.
struct SwigluGradients {
  Part a;
  Part dh;
};
void add_swiglu_backward(MoeBuilder& b, const HInput& h, const Part& p, const SwigluGradients& to);

}  // namespace mxcheck_kernels::sm90
