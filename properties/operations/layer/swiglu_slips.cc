// Slips in SwiGLU and its gradient: another sigmoid, order of products, rounding or derivative.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "numerics/format/codec.h"
#include "properties/operations/layer/step_slips.h"

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

LayerRow word(std::vector<std::string> tensors, const char* text, ToWord to) {
  return {std::move(tensors), text, [to](const LayerData& d, const std::string& t) { return mapped(d, t != "A", to); }};
}

LayerRow pair(const char* text, ToPair to, std::uint16_t (*round)(float) = layer_bf16) {
  return {{"dH"}, text, [to, round](const LayerData& d, const std::string&) { return gradient(d, to, round); }};
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

// Everything that is made of another sigmoid.
LayerRow of_sigmoid(const char* text, float (*sigmoid)(float g)) {
  return {{"A", "A_again", "scaled_A", "dH", "dS"}, text, [sigmoid](const LayerData& d, const std::string& t) {
            const bool backward = t != "A";
            Words a, dh(backward ? static_cast<std::size_t>(d.rows() * 2 * d.shape.inner) : 0);
            each_element(d, values_of_h(d, backward), backward,
                         [&](std::size_t, std::size_t, const Element& e, Columns at) {
                           const float q = sigmoid(e.g), da = e.s * e.p;
                           a.push_back(layer_bf16((e.g * q) * e.u));
                           if (!backward) return;
                           dh[at.gate] = layer_bf16(da * (e.u * (q * std::fma(e.g, 1.0F - q, 1.0F))));
                           dh[at.up] = layer_bf16(da * (e.g * q));
                         });
            if (t == "dH") return to_bytes(dh);
            if (t == "A" || t == "A_again") return to_bytes(a);
            LayerData v = d;
            v.backward.a = std::move(a);
            return made_again(v, t);
          }};
}

float exp_fp32(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }

std::vector<LayerRow> sigmoid_slips() {
  return {
      of_sigmoid("the sigmoid as (1 + tanh(g / 2)) / 2", [](float g) { return 0.5F * std::tanh(0.5F * g) + 0.5F; }),
      of_sigmoid("the sigmoid of exp2(-g * log2(e)), a product that is rounded",
                 [](float g) { return 1.0F / (1.0F + std::exp2(-g * 1.442695041F)); }),
      of_sigmoid("the sigmoid in FP64, rounded once",
                 [](float g) { return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(g)))); }),
      of_sigmoid("the sigmoid of negative gates as exp(g) / (1 + exp(g))",
                 [](float g) { return g < 0 ? exp_fp32(g) / (1.0F + exp_fp32(g)) : swiglu_sigmoid(g); }),
      of_sigmoid("subnormal sigmoids taken for zero",
                 [](float g) { return swiglu_sigmoid(g) < 0x1p-126F ? 0.0F : swiglu_sigmoid(g); }),
      of_sigmoid("a sigmoid of 1/2 for small gates",
                 [](float g) { return std::fabs(g) < 0x1p-20F ? 0.5F : swiglu_sigmoid(g); }),
      of_sigmoid("a sigmoid of 1 from a gate of 16.5 on",
                 [](float g) { return g >= 16.5F ? 1.0F : swiglu_sigmoid(g); }),
      of_sigmoid("a sigmoid of 0 for a gate of -0",
                 [](float g) { return g == 0 && std::signbit(g) ? 0.0F : swiglu_sigmoid(g); }),
      of_sigmoid("the sigmoid of a negative gate's BF16 neighbour, the one nearer to zero",
                 [](float g) {
                   const std::uint32_t word = std::bit_cast<std::uint32_t>(g);
                   if (!std::signbit(g)) return swiglu_sigmoid(g);
                   return swiglu_sigmoid((word & 0x7FFFFFFF) == 0 ? g : std::bit_cast<float>(word - 0x10000));
                 }),
      word({"A", "A_again"}, "g divided by 1 + exp(-g), whose reciprocal is not rounded",
           [](const Element& e) { return layer_bf16(e.g / (1.0F + exp_fp32(-e.g)) * e.u); }),
      word({"A", "A_again"}, "the sigmoid multiplied by u first, then by g",
           [](const Element& e) { return layer_bf16(e.g * (swiglu_sigmoid(e.g) * e.u)); }),
      word({"A", "A_again"}, "gates above 7 clamped to 7",
           [](const Element& e) { return layer_bf16(swiglu(e.g > 7 ? 7 : e.g, e.u)); }),
      word({"A", "A_again"}, "gates above 7 clamped to 7, up values to -7 and 7",
           [](const Element& e) {
             return layer_bf16(swiglu(e.g > 7 ? 7 : e.g, e.u > 7 ? 7 : e.u < -7 ? -7 : e.u));
           }),
      word({"A", "A_again"}, "a NaN gate taken for 0",
           [](const Element& e) { return layer_bf16(swiglu(std::isnan(e.g) ? 0.0F : e.g, e.u)); }),
      word({"A", "A_again"}, "a NaN gate taken for the least number, as by a clamp with max",
           [](const Element& e) { return layer_bf16(swiglu(std::fmax(e.g, -3e38F), e.u)); }),
      word({"A", "A_again"}, "values below 2^-126 taken for zero before A is rounded",
           [](const Element& e) {
             const float a = swiglu(e.g, e.u);
             return layer_bf16(std::fabs(a) < 0x1p-126F ? std::copysign(0.0F, a) : a);
           }),
      word({"A", "A_again"}, "values beyond BF16's range taken for its largest number",
           [](const Element& e) {
             const float a = swiglu(e.g, e.u);
             const auto saturated = static_cast<std::uint16_t>(
                 encode(Format::bf16, static_cast<double>(a), Rounding::nearest_even, Overflow::saturate));
             return std::isfinite(a) ? saturated : layer_bf16(a);
           }),
      word({"A", "A_again"}, "a gate of -Inf that gives 0, the limit of SiLU",
           [](const Element& e) { return layer_bf16(std::isinf(e.g) && e.g < 0 ? 0 : swiglu(e.g, e.u)); }),
      word({"A", "A_again"}, "ties away from zero",
           [](const Element& e) {
             return static_cast<std::uint16_t>(encode(Format::bf16, static_cast<double>(swiglu(e.g, e.u)),
                                                      Rounding::nearest_away, Overflow::non_saturate));
           }),
  };
}

// dg and du with another derivative of SiLU, and another du.
LayerRow with_derivative(const char* text, float (*derivative)(float g, float q)) {
  return {{"dH"}, text, [derivative](const LayerData& d, const std::string&) {
            Words out(static_cast<std::size_t>(d.rows() * 2 * d.shape.inner));
            each_element(d, values_of_h(d, true), true, [&](std::size_t, std::size_t, const Element& e, Columns at) {
              const float da = e.s * e.p, q = swiglu_sigmoid(e.g);
              out[at.gate] = layer_bf16(da * (e.u * derivative(e.g, q))), out[at.up] = layer_bf16(da * (e.g * q));
            });
            return to_bytes(out);
          }};
}

std::vector<LayerRow> derivative_slips() {
  return {
      with_derivative("the derivative of SiLU without fused multiply-add",
                      [](float g, float q) { return q * (1.0F + g * (1.0F - q)); }),
      with_derivative("the derivative of SiLU as q + SiLU(g) (1 - q)",
                      [](float g, float q) { return std::fma(g * q, 1.0F - q, q); }),
      with_derivative("the derivative of the sigmoid, q (1 - q), in place of SiLU's",
                      [](float, float q) { return q * (1.0F - q); }),
      pair("du as (dA * g) * q",
           [](const Element& e) {
             SwigluGradient g = swiglu_gradient(e.g, e.u, e.s * e.p);
             g.du = (e.s * e.p * e.g) * swiglu_sigmoid(e.g);
             return g;
           }),
      pair("du of SiLU(g) rounded to BF16",
           [](const Element& e) {
             SwigluGradient g = swiglu_gradient(e.g, e.u, e.s * e.p);
             g.du = e.s * e.p * bf16(e.g * swiglu_sigmoid(e.g));
             return g;
           }),
  };
}

}  // namespace

std::vector<LayerRow> swiglu_slips() {
  std::vector<LayerRow> all{
      changed_layer({"A", "A_again", "scaled_A", "dH", "dS"}, "gate and up exchanged", exchange_h),
      changed_layer({"A", "A_again", "scaled_A", "dH", "dS"},
                    "columns of H in the other order (halves for interleaved)",
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
      changed_layer({"A_again", "scaled_A", "dH", "dS"}, "H in BF16 in place of H as it was kept",
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
  std::ranges::move(sigmoid_slips(), std::back_inserter(all));
  return all;
}

std::vector<LayerRow> swiglu_gradient_slips() {
  std::vector<LayerRow> all{
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
  std::ranges::move(derivative_slips(), std::back_inserter(all));
  return all;
}

}  // namespace mxcheck
