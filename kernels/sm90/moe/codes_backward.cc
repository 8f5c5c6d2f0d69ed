// The backward pass of layers whose GEMMs multiply FP8 codes. In the workspace while a step later reads it:
//
//   d_down           codes of dO and W2, P; codes of dO along tokens, where they are made with the others
//   swiglu_backward  P, codes of dH in both directions and of A' along tokens; A' and dH in BF16, where codes are not
//                    made by tiles
//   d_w2             codes of A' and dO along tokens
//   d_up             codes of dH and W1, dX~
//   d_w1             codes of X and dH along tokens, dX~
//   d_aggregate      dX~

#include "kernels/sm90/moe/passes.h"
#include "kernels/sm90/moe/steps/encode.h"
#include "kernels/sm90/moe/steps/gradients.h"
#include "kernels/sm90/moe/steps/matmul_codes.h"
#include "kernels/sm90/moe/steps/swiglu.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kBand = 128;
constexpr WeightNames kW1{"amax W1", "quantize W1"};
constexpr WeightNames kW2{"amax W2", "quantize W2"};

Part add_d_down(MoeCoder& coder, const MoeCodes& d_o) {
  const MoeCall& c = coder.b.call();
  const MoeCodes w2 = encode_weights(coder, kW2, c.tensors.w2, c.n, c.d, Turned::no);
  const Part p = coder.b.memory.take(c.routed, 4 * c.n);
  add_rows_gemm(coder, {"d_down", d_o, w2, coder.b.memory.at<void>(p), c.n, c.d, MatmulOutput::fp32});
  coder.drop(d_o), coder.drop(w2);
  return p;
}

void add_d_w2(MoeCoder& coder, const MoeCodes& a, const MoeCodes& d_o) {
  const MoeCall& c = coder.b.call();
  add_depth_gemm(coder, {"d_w2", a, d_o, data_of<float>(c.tensors.dw2), c.n, c.d});
  coder.drop(a), coder.drop(d_o);
}

Part add_d_up(MoeCoder& coder, const MoeCodes& dh) {
  const MoeCall& c = coder.b.call();
  const Part dx = coder.b.memory.take(c.routed, 2 * c.d);
  const MoeCodes w1 = encode_weights(coder, kW1, c.tensors.w1, c.d, 2 * c.n, Turned::no);
  add_rows_gemm(coder, {"d_up", dh, w1, coder.b.memory.at<void>(dx), c.d, 2 * c.n, MatmulOutput::bf16});
  coder.drop(w1), coder.drop(dh);
  return dx;
}

// X along tokens from what was kept: codes, or BF16 and one scale.
void add_d_w1(MoeCoder& coder, const MoeCodes& dh) {
  const MoeCall& c = coder.b.call();
  const MoeCodes x = coder.take_columns(c.d);
  if (c.recipe->keeps_codes()) {
    encode_kept_x(coder, "quantize X along tokens", x);
  } else {
    const auto* const values = data_of<const std::uint16_t>(c.tensors.x);
    const Part amax = add_amax(coder, "amax X", values, c.tokens, c.d);
    const CodeSource from{values, c.tokens, c.d, true, coder.b.memory.at<const float>(amax)};
    encode_squares(coder, "quantize X along tokens", from, nullptr, &x);
    coder.b.memory.drop(amax);
  }
  add_depth_gemm(coder, {"d_w1", x, dh, data_of<float>(c.tensors.dw1), c.d, 2 * c.n});
  coder.drop(x), coder.drop(dh);
}

}  // namespace

MoePlan backward_of_codes(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  MoeCoder coder(b);
  coder.pad_offsets();
  // In front: they outlive what follows, the first longest.
  CodedGradients gradients;
  gradients.dh_columns = coder.take_columns(2 * call.n);
  gradients.dh = coder.take_rows(call.routed, 2 * call.n);
  gradients.a_columns = coder.take_columns(call.n);
  OutputGradient d_o = encode_d_o(coder);
  const Part p = add_d_down(coder, d_o.rows);
  add_gradients(coder, kept_h(call), p, gradients);
  b.memory.drop(p);
  encode_d_o_columns(coder, d_o);
  add_d_w2(coder, gradients.a_columns, d_o.columns);
  const Part dx = add_d_up(coder, gradients.dh);
  add_d_w1(coder, gradients.dh_columns);
  b.add_aggregate("d_aggregate", dx, call.tensors.dx, false);
  return b.finish();
}

}  // namespace mxcheck_kernels::sm90
