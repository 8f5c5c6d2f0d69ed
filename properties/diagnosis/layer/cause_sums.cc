// Causes in dS, and in the sums over a token's slots.

#include <algorithm>

#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "properties/diagnosis/layer/cause_tables.h"

namespace mxcheck {
namespace {

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

// The tensor with the layer changed first.
LayerCause changed(std::vector<std::string> tensors, const char* text, void (*change)(LayerData&)) {
  return {std::move(tensors), text, [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v);
            return made_again(v, t);
          }};
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

}  // namespace

std::vector<LayerCause> weight_gradient_causes() {
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

std::vector<LayerCause> slot_sum_causes() {
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

}  // namespace mxcheck
