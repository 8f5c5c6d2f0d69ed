#include "kernels/sm90/moe/steps/gradients.h"

#include "kernels/sm90/moe/steps/encode.h"
#include "kernels/sm90/moe/steps/swiglu.h"

namespace mxcheck_kernels::sm90 {
namespace {

enum class Blocks : std::uint8_t { lines, squares, tensors };

Blocks blocks_of_gradients(const MoeCall& c) {
  if (c.recipe->operands == MoeOperands::tensors) return Blocks::tensors;
  return c.recipe->square_gradients ? Blocks::squares : Blocks::lines;
}

CodeSource source_of_d_o(const MoeCall& c) { return {data_of<const std::uint16_t>(c.tensors.d_o), c.tokens, c.d}; }

// A' and dH in BF16, then to codes.
void add_gradients_in_bf16(MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const SwigluGradients values{memory.take(c.routed, 2 * c.n), memory.take(c.routed, 4 * c.n)};
  add_swiglu_backward(coder.b, h, p, values);
  CodeSource a{memory.at<const std::uint16_t>(values.a), c.routed, c.n};
  CodeSource dh{memory.at<const std::uint16_t>(values.dh), c.routed, 2 * c.n};
  if (blocks_of_gradients(c) == Blocks::squares) {
    encode_columns(coder, "quantize A' along tokens", a, to.a_columns);
    encode_squares(coder, "quantize dH", dh, &to.dh, &to.dh_columns);
  } else {
    const Part of_a = add_amax(coder, "amax A'", a.x, a.rows, a.cols);
    a.amax = memory.at<const float>(of_a);
    encode_squares(coder, "quantize A' along tokens", a, nullptr, &to.a_columns);
    const Part of_dh = add_amax(coder, "amax dH", dh.x, dh.rows, dh.cols);
    dh.amax = memory.at<const float>(of_dh);
    encode_squares(coder, "quantize dH", dh, &to.dh, &to.dh_columns);
    memory.drop(of_a), memory.drop(of_dh);
  }
  memory.drop(values.a), memory.drop(values.dh);
}

}  // namespace

OutputGradient encode_d_o(MoeCoder& coder) {
  const MoeCall& c = coder.b.call();
  CodeSource from = source_of_d_o(c);
  OutputGradient to;
  switch (blocks_of_gradients(c)) {
    case Blocks::lines:
      to.rows = coder.take_rows(c.tokens, c.d);
      encode_rows(coder, "quantize dO", from, to.rows);
      to.rows = gather_codes(coder, "gather dO", to.rows, c.d);
      break;
    case Blocks::squares:
      to.columns = coder.take_columns(c.d);
      to.rows = coder.take_rows(c.routed, c.d);
      from.gathered = true;
      encode_squares(coder, "quantize dO", from, &to.rows, &to.columns);
      break;
    case Blocks::tensors:
      to.amax = add_amax(coder, "amax dO", from.x, from.rows, from.cols);
      to.rows = coder.take_rows(c.tokens, c.d);
      from.amax = coder.b.memory.at<const float>(to.amax);
      encode_squares(coder, "quantize dO", from, &to.rows, nullptr);
      to.rows = gather_codes(coder, "gather dO", to.rows, c.d);
      break;
  }
  return to;
}

void encode_d_o_columns(MoeCoder& coder, OutputGradient& d_o) {
  const MoeCall& c = coder.b.call();
  const Blocks blocks = blocks_of_gradients(c);
  if (blocks == Blocks::squares) return;
  CodeSource from = source_of_d_o(c);
  from.gathered = true;
  d_o.columns = coder.take_columns(c.d);
  if (blocks == Blocks::lines) {
    encode_columns(coder, "quantize dO along tokens", from, d_o.columns);
    return;
  }
  from.amax = coder.b.memory.at<const float>(d_o.amax);
  encode_squares(coder, "quantize dO along tokens", from, nullptr, &d_o.columns);
  coder.b.memory.drop(d_o.amax);
}

void add_gradients(MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to) {
  if (blocks_of_gradients(coder.b.call()) == Blocks::lines) {
    add_swiglu_backward_codes(coder, h, p, to);
  } else {
    add_gradients_in_bf16(coder, h, p, to);
  }
}

}  // namespace mxcheck_kernels::sm90
