#pragma once
// dO, and the gradients of SwiGLU, as the backward pass's FP8 GEMMs read them: in blocks of one row or column, in
// squares, or with one scale a tensor, as the recipe says.

#include "kernels/sm90/moe/steps/codes.h"
#include "kernels/sm90/moe/steps/swiglu_codes.h"

namespace mxcheck_kernels::sm90 {

// The codes of dO for d_down and d_w2. Squares are made for both at once; else `columns` is not there yet.
struct OutputGradient {
  MoeCodes rows;
  MoeCodes columns;
  Part amax;  // of the whole tensor
};
OutputGradient encode_d_o(MoeCoder& coder);
// The columns, where they are not there.
void encode_d_o_columns(MoeCoder& coder, OutputGradient& d_o);

// "swiglu_backward" of H and P, and what its results need.
void add_gradients(MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to);

}  // namespace mxcheck_kernels::sm90
