// Causes in SwiGLU, in its gradient, and in the sums over a token's slots.

#include <algorithm>
#include <bit>
#include <cmath>

#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "properties/diagnosis/layer_causes.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

std::uint16_t truncated(float x) {
  return std::isnan(x) ? std::uint16_t{0x7FFF} : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}
float bf16(float x) { return fp32_of(layer_bf16(x)); }

GateUp other(GateUp order) { return order == GateUp::halves ? GateUp::interleaved : GateUp::halves; }

// One element of SwiGLU: its gate and up value, and in the backward pass P and A, and the row's weight.
struct Element {
  float g = 0, u = 0, p = 0, a = 0, s = 0;
};
using ToWord = std::uint16_t (*)(const Element&);
using ToPair = SwigluGradient (*)(const Element&);

struct Columns {
  std::size_t gate, up;
};
Columns columns_of(GateUp order, std::size_t j, std::size_t n) {
  return order == GateUp::halves ? Columns{j, n + j} : Columns{2 * j, 2 * j + 1};
}

// body(row, j, element, columns) for every element of the layer's inner tensors.
template <class Body>
void each_element(const LayerData& d, const std::vector<float>& h, bool backward, Body body) {
  const auto n = static_cast<std::size_t>(d.shape.inner);
  for (std::size_t row = 0; row < d.routes.row_weight.size(); ++row) {
    for (std::size_t j = 0; j < n; ++j) {
      const Columns at = columns_of(d.gate_up, j, n);
      Element e{h[row * 2 * n + at.gate], h[row * 2 * n + at.up], 0, 0, d.routes.row_weight[row]};
      if (backward) e.p = d.backward.p[row * n + j], e.a = fp32_of(d.backward.a[row * n + j]);
      body(row, j, e, Columns{row * 2 * n + at.gate, row * 2 * n + at.up});
    }
  }
}

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

std::vector<LayerCause> forward_rows() {
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

std::vector<LayerCause> backward_rows() {
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

// dS of a row from two rows of numbers.
using RowSum = float (*)(std::span<const float>);
float in_sequence(std::span<const float> x) {
  float sum = 0;
  for (const float v : x) sum += v;
  return sum;
}

template <class Product>
Bytes row_sums(const LayerData& d, std::int64_t width, RowSum sum, Product product) {
  std::vector<float> out;
  for (std::int64_t row = 0; row < d.rows(); ++row) {
    std::vector<float> products;
    for (std::int64_t j = 0; j < width; ++j) products.push_back(product(row, j));
    out.push_back(layer_fp32(sum(products)));
  }
  return to_bytes(out);
}

LayerCause ds_of_a(const char* text, RowSum sum, float (*product)(const Element&)) {
  return {{"dS"}, text, [sum, product](const LayerData& d, const std::string&) {
            std::vector<float> all;
            each_element(d, values_of_h(d, true), true,
                         [&](std::size_t, std::size_t, const Element& e, Columns) { all.push_back(product(e)); });
            const std::int64_t n = d.shape.inner;
            return row_sums(d, n, sum, [&](std::int64_t row, std::int64_t j) {
              return all[static_cast<std::size_t>(row * n + j)];
            });
          }};
}

LayerCause ds_of_y(const char* text, bool weighted) {
  return {{"dS"}, text, [weighted](const LayerData& d, const std::string&) {
            const std::int64_t width = d.shape.width;
            return row_sums(d, width, pairwise_sum, [&](std::int64_t row, std::int64_t j) {
              const auto r = static_cast<std::size_t>(row);
              const float y = fp32_of(d.forward.y[static_cast<std::size_t>(row * width + j)]);
              const float g = fp32_of(d.d_o[static_cast<std::size_t>(d.routes.row_token[r] * width + j)]);
              return g * (weighted ? d.routes.row_weight[r] * y : y);
            });
          }};
}

std::vector<LayerCause> ds_rows() {
  return {
      ds_of_y("the product of dO and Y in place of P and A", false),
      ds_of_y("the product of dO and the weighted Y", true),
      ds_of_a("A times the route's weight, A', in place of A", pairwise_sum,
              [](const Element& e) { return e.p * bf16(e.s * e.a); }),
      ds_of_a("P times the route's weight, dA, in place of P", pairwise_sum,
              [](const Element& e) { return (e.s * e.p) * e.a; }),
      ds_of_a("a sum in order in place of a pairwise one", in_sequence, [](const Element& e) { return e.p * e.a; }),
      ds_of_a("P rounded to BF16", pairwise_sum, [](const Element& e) { return bf16(e.p) * e.a; }),
      ds_of_a("a in FP32, not rounded to BF16", pairwise_sum, [](const Element& e) { return e.p * swiglu(e.g, e.u); }),
  };
}

// A sum over a token's slots with another step, end or order.
struct Sum {
  float (*step)(float acc, float s, float y);
  std::uint16_t (*end)(float) = layer_bf16;
};
float right_step(float acc, float s, float y) { return std::fma(s, y, acc); }

Bytes slots_summed(const LayerData& d, const std::string& tensor, const Sum& sum) {
  const Words& rows = tensor == "O" ? d.forward.y : d.backward.dx_rows;
  Words out;
  for (std::int64_t t = 0; t < d.shape.tokens; ++t) {
    const std::int64_t begin = d.routes.token_offsets[static_cast<std::size_t>(t)];
    const std::int64_t end = d.routes.token_offsets[static_cast<std::size_t>(t) + 1];
    for (std::int64_t j = 0; j < d.shape.width; ++j) {
      float acc = 0;
      for (std::int64_t slot = begin; slot < end; ++slot) {
        const std::int64_t row = d.routes.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0) continue;
        const float y = fp32_of(rows[static_cast<std::size_t>(row * d.shape.width + j)]);
        acc = sum.step(acc, d.routes.row_weight[static_cast<std::size_t>(row)], y);
      }
      out.push_back(sum.end(acc));
    }
  }
  return to_bytes(out);
}

LayerCause slots(std::vector<std::string> tensors, const char* text, Sum sum) {
  return {std::move(tensors), text,
          [sum](const LayerData& d, const std::string& t) { return slots_summed(d, t, sum); }};
}

// The slots of each token in another order, or fewer of them.
void sort_slots(LayerData& d, bool descending) {
  std::vector<std::int32_t>& rows = d.routes.token_rows;
  for (std::size_t t = 0; t + 1 < d.routes.token_offsets.size(); ++t) {
    const auto begin = rows.begin() + d.routes.token_offsets[t], end = rows.begin() + d.routes.token_offsets[t + 1];
    descending ? std::sort(begin, end, std::greater<>()) : std::sort(begin, end);
  }
}

std::vector<LayerCause> sum_rows() {
  const std::vector<std::string> both{"O", "dX"};
  return {
      changed(both, "slots added by ascending row (expert) in place of the order of the slots",
              [](LayerData& d) { sort_slots(d, false); }),
      changed(both, "slots added by descending row (expert)", [](LayerData& d) { sort_slots(d, true); }),
      changed(both, "slots added in reverse",
              [](LayerData& d) {
                for (std::size_t t = 0; t + 1 < d.routes.token_offsets.size(); ++t)
                  std::reverse(d.routes.token_rows.begin() + d.routes.token_offsets[t],
                               d.routes.token_rows.begin() + d.routes.token_offsets[t + 1]);
              }),
      slots({"O"}, "the sum kept in BF16", {[](float acc, float s, float y) { return bf16(std::fma(s, y, acc)); }}),
      slots({"dX"}, "the sum kept in BF16", {[](float acc, float, float y) { return bf16(acc + y); }}),
      slots({"O"}, "s * Y rounded to FP32 before it is added",
            {[](float acc, float s, float y) { return acc + s * y; }}),
      slots({"O"}, "s * Y rounded to BF16 before it is added",
            {[](float acc, float s, float y) { return acc + bf16(s * y); }}),
      slots({"O"}, "the route's weights not applied", {[](float acc, float, float y) { return acc + y; }}),
      slots({"O"}, "the route's weights applied twice",
            {[](float acc, float s, float y) { return std::fma(s * s, y, acc); }}),
      slots({"O"}, "the route's weights rounded to BF16",
            {[](float acc, float s, float y) { return std::fma(bf16(s), y, acc); }}),
      slots({"dX"}, "the route's weights applied, which dH has already", {right_step}),
      slots({"O"}, "truncation to BF16 in place of nearest, ties to even", {right_step, truncated}),
      slots({"dX"}, "truncation to BF16 in place of nearest, ties to even",
            {[](float acc, float, float y) { return acc + y; }, truncated}),
      slots({"O"}, "the last slot alone", {[](float, float s, float y) { return s * y; }}),
  };
}

}  // namespace

std::vector<LayerCause> elementwise_causes() {
  std::vector<LayerCause> all = forward_rows();
  for (auto* rows : {backward_rows, ds_rows, sum_rows}) {
    for (LayerCause& cause : rows()) all.push_back(std::move(cause));
  }
  return all;
}

}  // namespace mxcheck
