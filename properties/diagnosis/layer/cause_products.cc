// Causes in a GEMM's product: values of its operands, rows and roundings of D.

#include <algorithm>

#include "numerics/bytes.h"
#include "properties/diagnosis/layer/cause_tables.h"

namespace mxcheck {
namespace {

using Names = std::vector<std::string>;
const Names kOfRows{"H", "Y", "P", "dX_rows"};

// The tensor from values with the layer changed first.
LayerCause changed(Names tensors, const char* text, void (*change)(LayerData&)) {
  return {std::move(tensors), text, [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v);
            return made_from_values(v, t);
          }};
}

// D with its rows moved by one: row r holds what belongs to row r - by.
Bytes shifted(const LayerData& d, const std::string& tensor, std::int64_t by) {
  const Bytes right = made_again(d, tensor);
  Bytes out = right;
  const std::int64_t width = d.rows() == 0 ? 0 : std::ssize(right) / d.rows();
  for (std::size_t e = 0; e + 1 < d.routes.offsets.size(); ++e) {
    const std::int64_t begin = d.routes.offsets[e], count = d.routes.offsets[e + 1] - begin;
    for (std::int64_t r = 0; r < count; ++r)
      std::copy_n(right.begin() + (begin + (r - by + count) % count) * width, width, out.begin() + (begin + r) * width);
  }
  return out;
}

Bytes truncated_product(const LayerData& d, const std::string& tensor) {
  const std::optional<GemmTensor> g = gemm_tensor(tensor);
  const auto operand = [&](Side side) { return operand_as_held(d, g->gemm, side); };
  Words out;
  for (const float x : values_in<float>(product(d, g->gemm, operand(Side::a), operand(Side::b), true)))
    out.push_back(truncated(x));
  return to_bytes(out);
}

Bytes rounded_product(const LayerData& d, const std::string& tensor) {
  const std::optional<GemmTensor> g = gemm_tensor(tensor);
  std::vector<float> out;
  for (const float x : values_in<float>(
           product(d, g->gemm, operand_as_held(d, g->gemm, Side::a), operand_as_held(d, g->gemm, Side::b))))
    out.push_back(fp32_of(layer_bf16(x)));
  return to_bytes(out);
}

// Y of an A that was quantized from FP32, or that has the weight.
template <class Value>
Bytes from_other_a(const LayerData& d, const std::string& tensor, Value value) {
  const std::int64_t n = d.shape.inner;
  std::vector<float> a = values_of_h(d, false), row(static_cast<std::size_t>(n));
  std::vector<float> out(static_cast<std::size_t>(d.rows() * n));
  const bool halves = d.gate_up == GateUp::halves;
  for (std::int64_t i = 0; i < std::ssize(out); ++i) {
    const std::int64_t r = i / n, j = i % n;
    const auto h = [&](std::int64_t col) { return a[static_cast<std::size_t>(r * 2 * n + col)]; };
    const float g = h(halves ? j : 2 * j), u = h(halves ? n + j : 2 * j + 1);
    out[static_cast<std::size_t>(i)] = value(swiglu(g, u), d.routes.row_weight[static_cast<std::size_t>(r)]);
  }
  const Layer layer = d.layer();
  const Run run(layer, d.routes, "X", d.x.size());
  const LayerOperand x = row_operand(rule_of(d.recipe, LayerGemm::down, Side::a), {view(out, d.rows(), n), false},
                                     run.routed(), d.threads);
  if (tensor == "down_a_codes") return x.quantized.codes16.empty() ? to_bytes(x.quantized.codes) : Bytes();
  if (tensor == "down_a_scales")
    return x.quantized.scales_fp32.empty() ? to_bytes(x.quantized.scales) : to_bytes(x.quantized.scales_fp32);
  return product(d, LayerGemm::down, x, operand_as_held(d, LayerGemm::down, Side::b));
}

const Names kByA{"Y", "down_a_codes", "down_a_scales"};
const Names kByScaledA{"dW2", "d_w2_a_codes", "d_w2_a_scales"};

}  // namespace

std::vector<LayerCause> product_causes() {
  return {
      {kByA, "A in FP32, not rounded to BF16",
       [](const LayerData& d, const std::string& t) {
         if (!rule_of(d.recipe, LayerGemm::down, Side::a).quantized()) return Bytes();
         return from_other_a(d, t, [](float a, float) { return a; });
       }},
      changed(kByA, "the route's weight applied before the down projection",
              [](LayerData& d) {
                const auto n = static_cast<std::size_t>(d.shape.inner);
                for (std::size_t i = 0; i < d.forward.a.size(); ++i)
                  d.forward.a[i] = layer_bf16(d.routes.row_weight[i / n] * fp32_of(d.forward.a[i]));
              }),
      changed(kByScaledA, "A in place of A', without the route's weight",
              [](LayerData& d) { d.backward.scaled_a = d.backward.a; }),
      changed(kByScaledA, "the route's weight applied twice",
              [](LayerData& d) {
                const auto n = static_cast<std::size_t>(d.shape.inner);
                for (std::size_t i = 0; i < d.backward.scaled_a.size(); ++i)
                  d.backward.scaled_a[i] = layer_bf16(d.routes.row_weight[i / n] * fp32_of(d.backward.scaled_a[i]));
              }),
      {{"P"},
       "P with the route's weight already",
       [](const LayerData& d, const std::string& t) {
         std::vector<float> p = values_in<float>(made_again(d, t));
         const auto n = static_cast<std::size_t>(d.shape.inner);
         for (std::size_t i = 0; i < p.size(); ++i) p[i] = d.routes.row_weight[i / n] * p[i];
         return to_bytes(p);
       }},
      {{"H", "Y", "dX_rows"}, "truncation to BF16 in place of nearest, ties to even", truncated_product},
      {{"P", "dW2", "dW1"}, "D rounded to BF16", rounded_product},
      {kOfRows, "each expert's rows shifted by one",
       [](const LayerData& d, const std::string& t) { return shifted(d, t, 1); }},
      {kOfRows, "each expert's rows shifted back by one",
       [](const LayerData& d, const std::string& t) { return shifted(d, t, -1); }},
      changed(kOfRows, "the boundaries of experts one row late",
              [](LayerData& d) {
                for (std::size_t e = 1; e + 1 < d.routes.offsets.size(); ++e)
                  d.routes.offsets[e] = std::min(d.routes.offsets[e] + 1, d.rows());
              }),
      changed(kOfRows, "the boundaries of experts one row early",
              [](LayerData& d) {
                for (std::size_t e = 1; e + 1 < d.routes.offsets.size(); ++e)
                  d.routes.offsets[e] = std::max<std::int64_t>(d.routes.offsets[e] - 1, 0);
              }),
  };
}

}  // namespace mxcheck
