// Slips in dS, and in the sums over a token's slots.

#include "properties/operations/layer/step_slips.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"

namespace mxcheck {
namespace {

// dS of a row from two rows of numbers.
using RowSum = float (*)(std::span<const float>);
float in_sequence(std::span<const float> x) {
  float sum = 0;
  for (const float v : x) sum += v;
  return sum;
}

float in_fp64(std::span<const float> x) { return static_cast<float>(std::accumulate(x.begin(), x.end(), 0.0)); }
// Rounds of half as many sums each; left: what an odd one out becomes, of the sums and the number that is left over.
using OddOneOut = void (*)(std::vector<float>& sums, float left);
float in_rounds(std::span<const float> x, bool of_halves, OddOneOut odd) {
  std::vector<float> v(x.begin(), x.end());
  while (v.size() > 1) {
    const std::size_t pairs = v.size() / 2, distance = (v.size() + 1) / 2;
    std::vector<float> sums(pairs);
    for (std::size_t i = 0; i < pairs; ++i) sums[i] = of_halves ? v[i] + v[distance + i] : v[2 * i] + v[2 * i + 1];
    if (v.size() % 2 != 0) odd(sums, of_halves ? v[pairs] : v.back());
    v = std::move(sums);
  }
  return v.empty() ? 0 : v[0];
}
float half_to_half(std::span<const float> x) {
  return in_rounds(x, true, [](std::vector<float>& sums, float left) { sums.push_back(left); });
}
float odd_joins_the_first(std::span<const float> x) {
  return in_rounds(x, false, [](std::vector<float>& sums, float left) { sums[0] += left; });
}
float odd_without_zero(std::span<const float> x) {
  return in_rounds(x, false, [](std::vector<float>& sums, float left) { sums.push_back(left); });
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

LayerRow ds_of_a(const char* text, RowSum sum, float (*product)(const Element&)) {
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

// Each second product of a pair goes into the first without a rounding of its own.
LayerRow fused_ds() {
  return {{"dS"}, "products added by fused multiply-add", [](const LayerData& d, const std::string&) {
            std::vector<Element> all;
            each_element(d, values_of_h(d, true), true,
                         [&](std::size_t, std::size_t, const Element& e, Columns) { all.push_back(e); });
            const std::int64_t n = d.shape.inner;
            return row_sums(d, n, pairwise_sum, [&](std::int64_t row, std::int64_t j) {
              const Element& e = all[static_cast<std::size_t>(row * n + j)];
              if (j % 2 != 0) return 0.0F;
              if (j + 1 == n) return e.p * e.a;
              const Element& next = all[static_cast<std::size_t>(row * n + j + 1)];
              return std::fma(next.p, next.a, e.p * e.a);
            });
          }};
}

LayerRow ds_of_y(const char* text, bool weighted) {
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

// A sum over a token's slots with another step, end or order.
struct Sum {
  float (*step)(float acc, float s, float y);
  std::uint16_t (*end)(float) = layer_bf16;
  float start = 0;                                               // of a token that has slots
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  // slots of a token
  bool ends_at_dropped = false;
  bool weight_of_slot = false;  // not of its row
  bool dropped_is_row_0 = false;
};
float right_step(float acc, float s, float y) { return std::fma(s, y, acc); }

Bytes slots_summed(const LayerData& d, const std::string& tensor, const Sum& sum) {
  const Words& rows = tensor == "O" ? d.forward.y : d.backward.dx_rows;
  Words out;
  for (std::int64_t t = 0; t < d.shape.tokens; ++t) {
    const std::int64_t begin = d.routes.token_offsets[static_cast<std::size_t>(t)];
    const std::int64_t end = d.routes.token_offsets[static_cast<std::size_t>(t) + 1];
    for (std::int64_t j = 0; j < d.shape.width; ++j) {
      float acc = begin == end ? 0 : sum.start;
      for (std::int64_t slot = begin; slot < end && slot - begin < sum.most; ++slot) {
        std::int64_t row = d.routes.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0 && sum.ends_at_dropped) break;
        if (row < 0 && sum.dropped_is_row_0 && !d.routes.row_weight.empty()) row = 0;
        if (row < 0) continue;
        const float y = fp32_of(rows[static_cast<std::size_t>(row * d.shape.width + j)]);
        const std::int64_t of = sum.weight_of_slot ? std::min(slot, std::ssize(d.routes.row_weight) - 1) : row;
        acc = sum.step(acc, d.routes.row_weight[static_cast<std::size_t>(of)], y);
      }
      out.push_back(sum.end(acc));
    }
  }
  return to_bytes(out);
}

LayerRow slots(std::vector<std::string> tensors, const char* text, Sum sum) {
  return {std::move(tensors), text,
          [sum](const LayerData& d, const std::string& t) { return slots_summed(d, t, sum); }};
}

// The sum in FP64, rounded to FP32 and then to BF16.
Bytes slots_in_fp64(const LayerData& d, const std::string& tensor) {
  const Words& rows = tensor == "O" ? d.forward.y : d.backward.dx_rows;
  Words out;
  for (std::size_t t = 0; t + 1 < d.routes.token_offsets.size(); ++t) {
    for (std::int64_t j = 0; j < d.shape.width; ++j) {
      double acc = 0;
      for (std::int64_t slot = d.routes.token_offsets[t]; slot < d.routes.token_offsets[t + 1]; ++slot) {
        const std::int64_t row = d.routes.token_rows[static_cast<std::size_t>(slot)];
        if (row < 0) continue;
        const double weight =
            tensor == "O" ? static_cast<double>(d.routes.row_weight[static_cast<std::size_t>(row)]) : 1;
        acc += weight * static_cast<double>(fp32_of(rows[static_cast<std::size_t>(row * d.shape.width + j)]));
      }
      out.push_back(layer_bf16(static_cast<float>(acc)));
    }
  }
  return to_bytes(out);
}

// Rows of both sums, which differ in the weight.
template <class Change>
void add_sums(std::vector<LayerRow>& to, const char* text, Change change) {
  Sum weighted{right_step}, plain{[](float acc, float, float y) { return acc + y; }};
  change(weighted), change(plain);
  to.push_back(slots({"O"}, text, weighted));
  to.push_back(slots({"dX"}, text, plain));
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

std::vector<LayerRow> weight_gradient_slips() {
  return {
      ds_of_y("the product of dO and Y in place of P and A", false),
      ds_of_y("the product of dO and the weighted Y", true),
      ds_of_a("A times the route's weight, A', in place of A", pairwise_sum,
              [](const Element& e) { return e.p * bf16(e.s * e.a); }),
      ds_of_a("P times the route's weight, dA, in place of P", pairwise_sum,
              [](const Element& e) { return (e.s * e.p) * e.a; }),
      ds_of_a("a sum in order in place of a pairwise one", in_sequence, [](const Element& e) { return e.p * e.a; }),
      ds_of_a("a sum in FP64, rounded once", in_fp64, [](const Element& e) { return e.p * e.a; }),
      ds_of_a("the second half of a row added to the first, and so on (shuffles)", half_to_half,
              [](const Element& e) { return e.p * e.a; }),
      ds_of_a("an odd one out added to the first sum, not carried on", odd_joins_the_first,
              [](const Element& e) { return e.p * e.a; }),
      ds_of_a("an odd one out carried on without the +0 beside it", odd_without_zero,
              [](const Element& e) { return e.p * e.a; }),
      fused_ds(),
      ds_of_a("P rounded to BF16", pairwise_sum, [](const Element& e) { return bf16(e.p) * e.a; }),
      ds_of_a("a in FP32, not rounded to BF16", pairwise_sum, [](const Element& e) { return e.p * swiglu(e.g, e.u); }),
  };
}

std::vector<LayerRow> slot_sum_slips() {
  const std::vector<std::string> both{"O", "dX"};
  std::vector<LayerRow> all{
      changed_layer(both, "slots added by ascending row (expert) in place of the order of the slots",
                    [](LayerData& d) { sort_slots(d, false); }),
      changed_layer(both, "slots added by descending row (expert)", [](LayerData& d) { sort_slots(d, true); }),
      changed_layer(both, "slots added in reverse",
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
      {both, "the sum kept in FP64", slots_in_fp64},
  };
  add_sums(all, "a sum that begins with its first row, so that rows of -0 give -0", [](Sum& s) { s.start = -0.0F; });
  add_sums(all, "a dropped slot taken for row 0", [](Sum& s) { s.dropped_is_row_0 = true; });
  add_sums(all, "slots after a dropped one left out", [](Sum& s) { s.ends_at_dropped = true; });
  for (const auto& [text, most] :
       {std::pair("slots after a token's first left out", 1), std::pair("slots after a token's second left out", 2),
        std::pair("slots after a token's eighth left out", 8), std::pair("slots after a token's 128th left out", 128)})
    add_sums(all, text, [most = most](Sum& s) { s.most = most; });
  Sum by_slot{right_step};
  by_slot.weight_of_slot = true;
  all.push_back(slots({"O"}, "weights taken by slot, not by row", by_slot));
  return all;
}

// Slips in a GEMM's product: values of its operands, rows and roundings of D.

namespace {

using Names = std::vector<std::string>;
const Names kOfRows{"H", "Y", "P", "dX_rows"};

// The tensor from values with the layer changed first.
LayerRow values_changed(Names tensors, const char* text, void (*change)(LayerData&)) {
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
  if (tensor == "down_a_codes") return size_of(x.quantized.element()) == 1 ? x.quantized.codes.data : Bytes();
  if (tensor == "down_a_scales") return x.quantized.scales().data;
  return product(d, LayerGemm::down, x, operand_as_held(d, LayerGemm::down, Side::b));
}

// dW1 and dW2 with rows of each expert left out: left_out(row of the expert, rows of the expert).
LayerRow rows_left_out(const char* text, bool (*left_out)(std::int64_t row, std::int64_t rows)) {
  return {{"dW1", "dW2"}, text, [left_out](const LayerData& d, const std::string& t) {
            LayerData v = d;
            Words& of = t == "dW1" ? v.backward.dh : v.backward.scaled_a;
            const std::int64_t width = d.rows() == 0 ? 0 : std::ssize(of) / d.rows();
            for (std::size_t e = 0; e + 1 < d.routes.offsets.size(); ++e) {
              const std::int64_t begin = d.routes.offsets[e], count = d.routes.offsets[e + 1] - begin;
              for (std::int64_t r = 0; r < count; ++r) {
                if (left_out(r, count)) std::fill_n(of.begin() + (begin + r) * width, width, std::uint16_t{0});
              }
            }
            return made_from_values(v, t);
          }};
}

const Names kByA{"Y", "down_a_codes", "down_a_scales"};
const Names kByScaledA{"dW2", "d_w2_a_codes", "d_w2_a_scales"};

}  // namespace

std::vector<LayerRow> gemm_slips() {
  return {
      {kByA, "A in FP32, not rounded to BF16",
       [](const LayerData& d, const std::string& t) {
         if (!rule_of(d.recipe, LayerGemm::down, Side::a).quantized()) return Bytes();
         return from_other_a(d, t, [](float a, float) { return a; });
       }},
      values_changed(kByA, "the route's weight applied before the down projection",
                     [](LayerData& d) {
                       const auto n = static_cast<std::size_t>(d.shape.inner);
                       for (std::size_t i = 0; i < d.forward.a.size(); ++i)
                         d.forward.a[i] = layer_bf16(d.routes.row_weight[i / n] * fp32_of(d.forward.a[i]));
                     }),
      values_changed(kByScaledA, "A in place of A', without the route's weight",
                     [](LayerData& d) { d.backward.scaled_a = d.backward.a; }),
      values_changed(kByScaledA, "the route's weight applied twice",
                     [](LayerData& d) {
                       const auto n = static_cast<std::size_t>(d.shape.inner);
                       for (std::size_t i = 0; i < d.backward.scaled_a.size(); ++i)
                         d.backward.scaled_a[i] =
                             layer_bf16(d.routes.row_weight[i / n] * fp32_of(d.backward.scaled_a[i]));
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
      rows_left_out("rows of an expert past the last multiple of 32 left out",
                    [](std::int64_t row, std::int64_t rows) { return row >= rows / 32 * 32; }),
      rows_left_out("rows of an expert past the last multiple of 128 left out",
                    [](std::int64_t row, std::int64_t rows) { return row >= rows / 128 * 128; }),
      rows_left_out("rows of an expert past the last multiple of 128 left out, where it has 128 and more",
                    [](std::int64_t row, std::int64_t rows) { return rows >= 128 && row >= rows / 128 * 128; }),
      rows_left_out("rows of an expert past its first 128 left out",
                    [](std::int64_t row, std::int64_t) { return row >= 128; }),
      values_changed(kOfRows, "the boundaries of experts one row late",
                     [](LayerData& d) {
                       for (std::size_t e = 1; e + 1 < d.routes.offsets.size(); ++e)
                         d.routes.offsets[e] = std::min(d.routes.offsets[e] + 1, d.rows());
                     }),
      values_changed(kOfRows, "the boundaries of experts one row early",
                     [](LayerData& d) {
                       for (std::size_t e = 1; e + 1 < d.routes.offsets.size(); ++e)
                         d.routes.offsets[e] = std::max<std::int64_t>(d.routes.offsets[e] - 1, 0);
                     }),
  };
}

// Slips in what a GEMM multiplies: rows that are gathered, and experts' weights.

namespace {

const Names kByX{"H", "up_a_codes", "up_a_scales", "dW1", "d_w1_a_codes", "d_w1_a_scales"};
const Names kByDo{"P", "d_down_a_codes", "d_down_a_scales", "dW2", "d_w2_b_codes", "d_w2_b_scales"};
const Names kByW1{"H", "up_b_codes", "up_b_scales", "dX_rows", "d_up_b_codes", "d_up_b_scales"};
const Names kByW2{"Y", "down_b_codes", "down_b_scales", "P", "d_down_b_codes", "d_down_b_scales"};

std::int32_t at(const std::vector<std::int32_t>& v, std::int64_t i) {
  return v[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, std::ssize(v) - 1))];
}

Words rows_at(const Words& x, const std::vector<std::int32_t>& index, std::int64_t width) {
  Words out;
  for (const std::int32_t i : index) out.insert(out.end(), x.begin() + i * width, x.begin() + (i + 1) * width);
  return out;
}

// The gather index replaced: rows become tokens of their own, which are gathered in order.
void regather(LayerData& d, const std::vector<std::int32_t>& index) {
  d.x = rows_at(d.x, index, d.shape.width);
  if (!d.d_o.empty()) d.d_o = rows_at(d.d_o, index, d.shape.width);
  d.shape.tokens = std::ssize(index);
  d.routes.token_rows.resize(index.size());
  std::iota(d.routes.token_rows.begin(), d.routes.token_rows.end(), 0);
  d.routes.row_token = d.routes.token_rows;
  d.routes.token_offsets.resize(index.size() + 1);
  std::iota(d.routes.token_offsets.begin(), d.routes.token_offsets.end(), std::int64_t{0});
}

using Index = std::vector<std::int32_t> (*)(const LayerData&);
LayerRow gathered_by(const char* text, Index index) {
  Names tensors = kByX;
  tensors.insert(tensors.end(), kByDo.begin(), kByDo.end());
  return {std::move(tensors), text, [index](const LayerData& d, const std::string& t) {
            // Rows quantized by token are the same before any gather.
            const bool by_token = t.starts_with("up_a_") || t.starts_with("d_down_a_");
            if (by_token && operand_as_held(d, gemm_tensor(t)->gemm, Side::a).by_token) return Bytes();
            LayerData v = d;
            regather(v, index(d));
            return made_from_values(v, t);
          }};
}

// Each expert's matrix, as it lies in memory rows x cols, read as cols x rows.
void misread(Words& w, std::int64_t rows, std::int64_t cols) {
  Words out(w.size());
  for (std::int64_t i = 0; i < std::ssize(w); ++i) {
    const std::int64_t e = i / (rows * cols), r = i / cols % rows, c = i % cols;
    out[static_cast<std::size_t>(i)] = w[static_cast<std::size_t>(e * rows * cols + c * rows + r)];
  }
  w = std::move(out);
}

// Experts' weights by one further on.
void rotate_experts(Words& w, std::int64_t experts, std::int64_t by) {
  const std::int64_t matrix = std::ssize(w) / experts;
  std::rotate(w.begin(), w.begin() + (by + experts) % experts * matrix, w.end());
}

// Columns of W1 and with them those of H: gate and up exchanged, or in the other of the two orders.
void reorder_w1(LayerData& d, bool exchange, bool interleave) {
  const std::int64_t n = d.shape.inner;
  const Words from = d.w1;
  for (std::int64_t i = 0; i < std::ssize(from); ++i) {
    const std::int64_t row = i / (2 * n), col = i % (2 * n);
    std::int64_t to = exchange ? (d.gate_up == GateUp::halves ? (col + n) % (2 * n) : col ^ 1) : col;
    if (interleave) to = d.gate_up == GateUp::halves ? to % n * 2 + to / n : to / 2 + to % 2 * n;
    d.w1[static_cast<std::size_t>(row * 2 * n + to)] = from[static_cast<std::size_t>(i)];
  }
}

}  // namespace

std::vector<LayerRow> gather_slips() {
  return {
      gathered_by("rows gathered without the index: row r is token r modulo T",
                  [](const LayerData& d) {
                    std::vector<std::int32_t> v;
                    for (std::int64_t r = 0; r < d.rows(); ++r)
                      v.push_back(static_cast<std::int32_t>(r % d.shape.tokens));
                    return v;
                  }),
      gathered_by("rows gathered in the order of the slots, token after token, in place of by expert",
                  [](const LayerData& d) {
                    std::vector<std::int32_t> v;
                    for (const std::int32_t row : d.routes.token_rows) {
                      const auto slot = &row - d.routes.token_rows.data();
                      const auto token =
                          std::upper_bound(d.routes.token_offsets.begin(), d.routes.token_offsets.end(), slot);
                      if (row >= 0) v.push_back(static_cast<std::int32_t>(token - d.routes.token_offsets.begin() - 1));
                    }
                    return v;
                  }),
      gathered_by("each row gathered by the index of the row before it",
                  [](const LayerData& d) {
                    std::vector<std::int32_t> v;
                    for (std::int64_t r = 0; r < d.rows(); ++r) v.push_back(at(d.routes.row_token, r - 1));
                    return v;
                  }),
      gathered_by("each row gathered by the index of the row after it",
                  [](const LayerData& d) {
                    std::vector<std::int32_t> v;
                    for (std::int64_t r = 0; r < d.rows(); ++r) v.push_back(at(d.routes.row_token, r + 1));
                    return v;
                  }),
      gathered_by("tokens of each expert gathered in descending order",
                  [](const LayerData& d) {
                    std::vector<std::int32_t> v = d.routes.row_token;
                    for (std::size_t e = 0; e + 1 < d.routes.offsets.size(); ++e)
                      std::reverse(v.begin() + d.routes.offsets[e], v.begin() + d.routes.offsets[e + 1]);
                    return v;
                  }),
  };
}

std::vector<LayerRow> weight_slips() {
  return {
      values_changed(kByW1, "gate and up exchanged in W1", [](LayerData& d) { reorder_w1(d, true, false); }),
      values_changed(kByW1, "columns of W1 in the other order (halves for interleaved)",
                     [](LayerData& d) { reorder_w1(d, false, true); }),
      values_changed(kByW1, "W1 transposed: its memory read as [E, 2n, d]",
                     [](LayerData& d) { misread(d.w1, d.shape.width, 2 * d.shape.inner); }),
      values_changed(kByW2, "W2 transposed: its memory read as [E, d, n]",
                     [](LayerData& d) { misread(d.w2, d.shape.inner, d.shape.width); }),
      values_changed(kByW1, "each expert's rows times the next expert's W1",
                     [](LayerData& d) { rotate_experts(d.w1, d.shape.experts, 1); }),
      values_changed(kByW1, "each expert's rows times the W1 of the expert before it",
                     [](LayerData& d) { rotate_experts(d.w1, d.shape.experts, -1); }),
      values_changed(kByW2, "each expert's rows times the next expert's W2",
                     [](LayerData& d) { rotate_experts(d.w2, d.shape.experts, 1); }),
      values_changed(kByW2, "each expert's rows times the W2 of the expert before it",
                     [](LayerData& d) { rotate_experts(d.w2, d.shape.experts, -1); }),
  };
}

}  // namespace mxcheck
