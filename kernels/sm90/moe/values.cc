// Layers whose GEMMs multiply BF16. Every tensor of the table is in the workspace while a step later reads it, rounded
// ones under the recipes that round.
//
//   forward   up: X, W1 rounded. swiglu: A. down: A, W2 rounded, Y. aggregate: Y.
//   backward  d_down: dO, W2 rounded, P. swiglu_backward: P, A', dH. d_w2: dH, A', and dO along tokens.
//             d_up: dH, dH along tokens, W1 rounded, dX~. d_w1: dH and X along tokens, dX~. d_aggregate: dX~.
//
// X, dO and what they are rounded to are copied to the rows of their experts (steps/gather.h). Without rounding the
// most is R (2 n + 2 d) bytes forward (A, Y), and R max(10 n + 2 d, 4 n + 4 d) backward.

#include "kernels/sm90/moe/passes.h"
#include "kernels/sm90/moe/steps/round.h"
#include "kernels/sm90/moe/steps/swiglu.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kBand = 32;
constexpr TokenNames kX{"quantize X", "gather X"};
constexpr TokenNames kDO{"quantize dO", "gather dO"};

const MaybeRule& rule(MoeBuilder& b, RoundedOperand operand) { return b.call().recipe->rule(operand); }

// Whether both GEMMs that read dO read it as it is.
bool shares_d_o(MoeBuilder& b) { return !rule(b, RoundedOperand::d_down_do) && !rule(b, RoundedOperand::d_w2_do); }

// X W1 to H, which is kept.
void add_up(MoeBuilder& b) {
  const MoeCall& c = b.call();
  const MoeOperand x = rows_of_tokens(b, kX, c.tensors.x, rule(b, RoundedOperand::up_x));
  const MoeOperand w1 =
      round_weights(b, "quantize W1", c.tensors.w1, c.d, 2 * c.n, Along::columns, rule(b, RoundedOperand::up_w1));
  add_rows_gemm(b, {"up", x, w1, true, c.tensors.h.data, 2 * c.n, c.d, MatmulOutput::bf16});
  b.memory.drop(x.part), b.memory.drop(w1.part);
}

Part add_down(MoeBuilder& b, const Part& a) {
  const MoeCall& c = b.call();
  const MoeOperand rounded = round_routed(b, "quantize A", a, c.n, Along::rows, rule(b, RoundedOperand::down_a));
  const MoeOperand w2 =
      round_weights(b, "quantize W2", c.tensors.w2, c.n, c.d, Along::columns, rule(b, RoundedOperand::down_w2));
  const Part y = b.memory.take(c.routed, 2 * c.d);
  add_rows_gemm(b, {"down", rounded, w2, true, b.memory.at<void>(y), c.d, c.n, MatmulOutput::bf16});
  b.memory.drop(rounded.part), b.memory.drop(w2.part);
  return y;
}

// dO stays where d_w2 reads it too.
Part add_d_down(MoeBuilder& b, const MoeOperand& d_o) {
  const MoeCall& c = b.call();
  const MoeOperand w2 =
      round_weights(b, "quantize W2", c.tensors.w2, c.n, c.d, Along::rows, rule(b, RoundedOperand::d_down_w2));
  const Part p = b.memory.take(c.routed, 4 * c.n);
  add_rows_gemm(b, {"d_down", d_o, w2, false, b.memory.at<void>(p), c.n, c.d, MatmulOutput::fp32});
  b.memory.drop(w2.part);
  if (!shares_d_o(b)) b.memory.drop(d_o.part);
  return p;
}

// X or dO for the gradient of a weight.
MoeOperand along_tokens(MoeBuilder& b, const char* rounds, const char* copies, const Checked& x,
                        RoundedOperand operand) {
  if (const MaybeRule& of = rule(b, operand)) return round_gathered(b, rounds, x, *of);
  return gather_tokens(b, copies, data_of<const std::uint16_t>(x));
}

void add_d_w2(MoeBuilder& b, const Part& scaled_a, const MoeOperand& d_o_rows) {
  const MoeCall& c = b.call();
  const MoeOperand a =
      round_routed(b, "quantize A' along tokens", scaled_a, c.n, Along::columns, rule(b, RoundedOperand::d_w2_a));
  const MoeOperand d_o = shares_d_o(b) ? d_o_rows
                                       : along_tokens(b, "quantize dO along tokens", "gather dO for dW2", c.tensors.d_o,
                                                      RoundedOperand::d_w2_do);
  add_depth_gemm(b, {"d_w2", a, d_o, data_of<float>(c.tensors.dw2), c.n, c.d});
  b.memory.drop(a.part), b.memory.drop(d_o.part);
}

Part add_d_up(MoeBuilder& b, const MoeOperand& dh) {
  const MoeCall& c = b.call();
  const Part dx = b.memory.take(c.routed, 2 * c.d);
  const MoeOperand w1 =
      round_weights(b, "quantize W1", c.tensors.w1, c.d, 2 * c.n, Along::rows, rule(b, RoundedOperand::d_up_w1));
  add_rows_gemm(b, {"d_up", dh, w1, false, b.memory.at<void>(dx), c.d, 2 * c.n, MatmulOutput::bf16});
  b.memory.drop(w1.part), b.memory.drop(dh.part);
  return dx;
}

void add_d_w1(MoeBuilder& b, const MoeOperand& dh) {
  const MoeCall& c = b.call();
  const MoeOperand x = along_tokens(b, "quantize X along tokens", kX.copy, c.tensors.x, RoundedOperand::d_w1_x);
  add_depth_gemm(b, {"d_w1", x, dh, data_of<float>(c.tensors.dw1), c.d, 2 * c.n});
  b.memory.drop(x.part), b.memory.drop(dh.part);
}

}  // namespace

MoePlan forward_of_values(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  add_up(b);
  const Part a = b.memory.take(call.routed, 2 * call.n);
  add_swiglu(b, data_of<const std::uint16_t>(call.tensors.h), a);
  const Part y = add_down(b, a);
  b.add_aggregate("aggregate", y, call.tensors.o, true);
  return b.finish();
}

MoePlan backward_of_values(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  const Part dh_values = b.memory.take(call.routed, 4 * call.n);  // in front: it outlives what follows
  const MoeOperand d_o = rows_of_tokens(b, kDO, call.tensors.d_o, rule(b, RoundedOperand::d_down_do));
  const Part p = add_d_down(b, d_o);
  const Part a = b.memory.take(call.routed, 2 * call.n);
  add_swiglu_backward(b, kept_h(call), p, {a, dh_values});
  b.memory.drop(p);
  add_d_w2(b, a, d_o);
  const RoundedPair dh = round_both(b, "quantize dH", dh_values, 2 * call.n, rule(b, RoundedOperand::d_up_dh),
                                    rule(b, RoundedOperand::d_w1_dh));
  const Part dx = add_d_up(b, dh.rows);
  add_d_w1(b, dh.columns);
  b.add_aggregate("d_aggregate", dx, call.tensors.dx, false);
  return b.finish();
}

}  // namespace mxcheck_kernels::sm90
