// Causes in SwiGLU and its gradient.

#include "numerics/bytes.h"
#include "properties/diagnosis/layer/cause_tables.h"

namespace mxcheck {
namespace {

GateUp other(GateUp order) { return order == GateUp::halves ? GateUp::interleaved : GateUp::halves; }

using ToWord = std::uint16_t (*)(const Element&);
using ToPair = SwigluGradient (*)(const Element&);

Bytes mapped(const LayerData& d, bool backward, ToWord to) {
  Words out(static_cast<std::size_t>(d.rows() * d.shape.inner));
  std::size_t i = 0;
  each_element(d, values_of_h(d, backward), backward,
               [&](std::size_t, std::size_t, const Element& e, Columns) { out[i++] = to(e); });
  return to_bytes(out);
}

Bytes gradient(const LayerData& d, ToPair to, std::uint16_t (*round)(float)) {
  Words out(static_cast<std::size_t>(d.rows() * 2 * d.shape.inner));
  each_element(d, values_of_h(d, true), true, [&](std::size_t, std::size_t, const Element& e, Columns at) {
    const SwigluGradient g = to(e);
    out[at.gate] = round(g.dg), out[at.up] = round(g.du);
  });
  return to_bytes(out);
}

LayerCause word(std::vector<std::string> tensors, const char* text, ToWord to) {
  return {std::move(tensors), text, [to](const LayerData& d, const std::string& t) { return mapped(d, t != "A", to); }};
}

LayerCause pair(const char* text, ToPair to, std::uint16_t (*round)(float) = layer_bf16) {
  return {{"dH"}, text, [to, round](const LayerData& d, const std::string&) { return gradient(d, to, round); }};
}

// The tensor with the layer changed first.
LayerCause changed(std::vector<std::string> tensors, const char* text, void (*change)(LayerData&)) {
  return {std::move(tensors), text, [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v);
            return made_again(v, t);
          }};
}

// Each row's gate half exchanged with its up half, or each even column with the next.
void exchange(std::vector<std::uint16_t>& h, std::int64_t n, GateUp order) {
  for (std::size_t row = 0; row < h.size(); row += static_cast<std::size_t>(2 * n)) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
      const Columns at = columns_of(order, j, static_cast<std::size_t>(n));
      std::swap(h[row + at.gate], h[row + at.up]);
    }
  }
}
void exchange_h(LayerData& d) {
  exchange(d.forward.h, d.shape.inner, d.gate_up);
  const Layer layer = d.layer();
  const Run run(layer, d.routes, "X", d.x.size());
  d.forward.kept.h =
      row_operand(d.recipe.kept_h, {view(d.forward.h, d.rows(), 2 * d.shape.inner), false}, run.routed(), d.threads);
}

}  // namespace

std::vector<LayerCause> swiglu_causes() {
  return {
      changed({"A", "A_again", "scaled_A", "dH", "dS"}, "gate and up exchanged", exchange_h),
      changed({"A", "A_again", "scaled_A", "dH", "dS"}, "columns of H in the other order (halves for interleaved)",
              [](LayerData& d) { d.gate_up = other(d.gate_up); }),
      word({"A", "A_again"}, "SiLU rounded to BF16 before it multiplies u",
           [](const Element& e) { return layer_bf16(bf16(e.g * swiglu_sigmoid(e.g)) * e.u); }),
      word({"A", "A_again"}, "the sigmoid rounded to BF16",
           [](const Element& e) { return layer_bf16(e.g * bf16(swiglu_sigmoid(e.g)) * e.u); }),
      word({"A", "A_again"}, "g * u multiplied first, then the sigmoid",
           [](const Element& e) { return layer_bf16((e.g * e.u) * swiglu_sigmoid(e.g)); }),
      word({"A", "A_again"}, "truncation to BF16 in place of nearest, ties to even",
           [](const Element& e) { return truncated(swiglu(e.g, e.u)); }),
      word({"A", "A_again"}, "SiLU(g) without u",
           [](const Element& e) { return layer_bf16(e.g * swiglu_sigmoid(e.g)); }),
      word({"A", "A_again"}, "g * u without the sigmoid", [](const Element& e) { return layer_bf16(e.g * e.u); }),
      word({"A", "A_again"}, "the route's weight applied before the down projection",
           [](const Element& e) { return layer_bf16(e.s * swiglu(e.g, e.u)); }),
      word({"A", "A_again"}, "the route's weight applied to A in BF16 before the down projection",
           [](const Element& e) { return layer_bf16(e.s * bf16(swiglu(e.g, e.u))); }),
      changed({"A_again", "scaled_A", "dH", "dS"}, "H in BF16 in place of H as it was kept",
              [](LayerData& d) { d.recipe.kept_h = OperandRule(); }),
      {{"A"},
       "H in FP32, not rounded to BF16",
       [](const LayerData& d, const std::string&) {
         const auto operand = [&](Side side) { return operand_as_held(d, LayerGemm::up, side); };
         const std::vector<float> h =
             values_in<float>(product(d, LayerGemm::up, operand(Side::a), operand(Side::b), true));
         Words out;
         each_element(d, h, false, [&](std::size_t, std::size_t, const Element& e, Columns) {
           out.push_back(layer_bf16(swiglu(e.g, e.u)));
         });
         return to_bytes(out);
       }},
  };
}

std::vector<LayerCause> swiglu_gradient_causes() {
  return {
      word({"scaled_A"}, "A without the route's weight", [](const Element& e) { return layer_bf16(e.a); }),
      word({"scaled_A"}, "the route's weight applied twice",
           [](const Element& e) { return layer_bf16(e.s * (e.s * e.a)); }),
      word({"scaled_A"}, "a in FP32, not rounded to BF16, times the weight",
           [](const Element& e) { return layer_bf16(e.s * swiglu(e.g, e.u)); }),
      word({"scaled_A"}, "truncation to BF16 in place of nearest, ties to even",
           [](const Element& e) { return truncated(e.s * e.a); }),
      pair("the route's weight left out of dA", [](const Element& e) { return swiglu_gradient(e.g, e.u, e.p); }),
      pair("the route's weight applied twice",
           [](const Element& e) { return swiglu_gradient(e.g, e.u, e.s * (e.s * e.p)); }),
      pair("P rounded to BF16", [](const Element& e) { return swiglu_gradient(e.g, e.u, e.s * bf16(e.p)); }),
      pair("dA rounded to BF16", [](const Element& e) { return swiglu_gradient(e.g, e.u, bf16(e.s * e.p)); }),
      pair("dg as (dA * u) times the derivative",
           [](const Element& e) {
             const float da = e.s * e.p, q = swiglu_sigmoid(e.g);
             return SwigluGradient{(da * e.u) * (q * std::fma(e.g, 1.0F - q, 1.0F)), da * (e.g * q)};
           }),
      pair("the derivative of SiLU without its second term, q",
           [](const Element& e) {
             const float da = e.s * e.p, q = swiglu_sigmoid(e.g);
             return SwigluGradient{da * (e.u * q), da * (e.g * q)};
           }),
      pair("dg and du exchanged",
           [](const Element& e) {
             const SwigluGradient g = swiglu_gradient(e.g, e.u, e.s * e.p);
             return SwigluGradient{g.du, g.dg};
           }),
      pair(
          "truncation to BF16 in place of nearest, ties to even",
          [](const Element& e) { return swiglu_gradient(e.g, e.u, e.s * e.p); }, truncated),
  };
}

}  // namespace mxcheck
