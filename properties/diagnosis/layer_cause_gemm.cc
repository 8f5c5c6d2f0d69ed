// Causes in the layer's GEMMs and their operands: rows, weights, blocks, roundings.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/diagnosis/layer_causes.h"
#include "reference/layer/run.h"

namespace mxcheck {
namespace {

using Names = std::vector<std::string>;
const Names kByX{"H", "up_a_codes", "up_a_scales", "dW1", "d_w1_a_codes", "d_w1_a_scales"};
const Names kByDo{"P", "d_down_a_codes", "d_down_a_scales", "dW2", "d_w2_b_codes", "d_w2_b_scales"};
const Names kByW1{"H", "up_b_codes", "up_b_scales", "dX_rows", "d_up_b_codes", "d_up_b_scales"};
const Names kByW2{"Y", "down_b_codes", "down_b_scales", "P", "d_down_b_codes", "d_down_b_scales"};
const Names kAlongTokens{"d_w2_a_codes", "d_w2_a_scales", "d_w2_b_codes", "d_w2_b_scales", "dW2",
                         "d_w1_a_codes", "d_w1_a_scales", "d_w1_b_codes", "d_w1_b_scales", "dW1"};
const Names kOfRows{"H", "Y", "P", "dX_rows"};

// The tensor from values with the layer changed first.
LayerCause changed(Names tensors, const char* text, void (*change)(LayerData&)) {
  return {std::move(tensors), text, [change](const LayerData& d, const std::string& t) {
            LayerData v = d;
            change(v);
            return made_from_values(v, t);
          }};
}

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
LayerCause gathered_by(const char* text, Index index) {
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

std::vector<LayerCause> gather_rows() {
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

std::vector<LayerCause> weight_rows() {
  return {
      changed(kByW1, "gate and up exchanged in W1", [](LayerData& d) { reorder_w1(d, true, false); }),
      changed(kByW1, "columns of W1 in the other order (halves for interleaved)",
              [](LayerData& d) { reorder_w1(d, false, true); }),
      changed(kByW1, "W1 transposed: its memory read as [E, 2n, d]",
              [](LayerData& d) { misread(d.w1, d.shape.width, 2 * d.shape.inner); }),
      changed(kByW2, "W2 transposed: its memory read as [E, d, n]",
              [](LayerData& d) { misread(d.w2, d.shape.inner, d.shape.width); }),
      changed(kByW1, "each expert's rows times the next expert's W1",
              [](LayerData& d) { rotate_experts(d.w1, d.shape.experts, 1); }),
      changed(kByW1, "each expert's rows times the W1 of the expert before it",
              [](LayerData& d) { rotate_experts(d.w1, d.shape.experts, -1); }),
      changed(kByW2, "each expert's rows times the next expert's W2",
              [](LayerData& d) { rotate_experts(d.w2, d.shape.experts, 1); }),
      changed(kByW2, "each expert's rows times the W2 of the expert before it",
              [](LayerData& d) { rotate_experts(d.w2, d.shape.experts, -1); }),
  };
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

std::uint16_t truncated(float x) {
  return std::isnan(x) ? std::uint16_t{0x7FFF} : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
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

std::vector<LayerCause> value_rows() {
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

// The scale of each element, as blocks of 1x1, for a GEMM whose blocks are not those of its contract.
LayerOperand spread(const LayerOperand& x, std::span<const std::int64_t> starts) {
  LayerOperand out = x;
  Quantized& q = out.quantized;
  q.block = {1, 1}, q.scale_rows = q.rows, q.scale_cols = q.cols;
  q.scales.clear(), q.scales_fp32.clear();
  const Quantized& from = x.quantized;
  const std::int64_t wide = from.block.width(from.cols);
  std::int64_t scale_row = -1;
  for (std::int64_t r = 0; r < q.rows; ++r) {
    while (scale_row + 1 < std::ssize(starts) && starts[static_cast<std::size_t>(scale_row + 1)] <= r) ++scale_row;
    for (std::int64_t c = 0; c < q.cols; ++c) {
      const auto i = static_cast<std::size_t>(scale_row * from.scale_cols + c / wide);
      if (from.scales_fp32.empty()) q.scales.push_back(from.scales[i]);
      if (!from.scales_fp32.empty()) q.scales_fp32.push_back(from.scales_fp32[i]);
    }
  }
  return out;
}

// The values that the operand along tokens is made of, gathered.
LayerOperand gathered_values(const LayerData& d, LayerGemm gemm, Side side) {
  LayerData v = d;
  v.recipe = layer_recipe_named("bf16");
  return operand_from_values(v, gemm, side);
}

// Along tokens, quantized as one run of rows, or in rows.
Bytes other_blocks(const LayerData& d, const std::string& tensor, bool by_rows) {
  const GemmTensor g = *gemm_tensor(tensor);
  LayerData v = d;
  const auto operand = [&](Side side) {
    const OperandRule& rule = rule_of(d.recipe, g.gemm, side);
    if (!rule.quantized() || rule.of_whole_tensor() || rule.source != OperandSource::values)
      throw Error(ErrorKind::usage, "no blocks along tokens");
    const LayerOperand values = gathered_values(d, g.gemm, side);
    const BlockShape block = by_rows ? rule.block : rule.block.transposed();
    LayerOperand x = values;
    x.is_quantized = true;
    x.quantized = quantize(view(values.values, values.rows, values.cols), rule.format, block, recipe_named(rule.scales),
                           {}, d.threads);
    return x;
  };
  if (!g.is_output) {
    const Quantized q = operand(g.side).quantized;
    if (g.is_codes) return q.codes16.empty() ? to_bytes(q.codes) : to_bytes(q.codes16);
    return q.scales_fp32.empty() ? to_bytes(q.scales) : to_bytes(q.scales_fp32);
  }
  const auto spread_operand = [&](Side side) {
    const LayerOperand x = operand(side);
    const std::vector<std::int64_t> starts = block_row_starts(x.rows, x.quantized.block.rows, {});
    rule_of(v.recipe, g.gemm, side).block = {1, 1};
    return spread(x, starts);
  };
  const LayerOperand a = spread_operand(Side::a), b = spread_operand(Side::b);
  return product(v, g.gemm, a, b);
}

std::vector<LayerCause> block_rows() {
  return {
      {kAlongTokens, "blocks along tokens that do not start again at each expert",
       [](const LayerData& d, const std::string& t) { return other_blocks(d, t, false); }},
      {kAlongTokens, "the scales of blocks along rows in place of blocks along tokens",
       [](const LayerData& d, const std::string& t) { return other_blocks(d, t, true); }},
      {kAlongTokens, "quantized again from what the GEMM along rows made of it, in place of the values",
       [](const LayerData& d, const std::string& t) {
         LayerData v = d;
         const GemmTensor g = *gemm_tensor(t);
         if (g.gemm == LayerGemm::d_w1) rule_of(v.recipe, g.gemm, Side::a).source = OperandSource::requantized;
         rule_of(v.recipe, g.gemm, Side::b).source = OperandSource::requantized;
         check(v.recipe);
         return made_from_values(v, t);
       }},
      {kAlongTokens, "quantized from the values, not from what the GEMM along rows made of it",
       [](const LayerData& d, const std::string& t) {
         LayerData v = d;
         const GemmTensor g = *gemm_tensor(t);
         rule_of(v.recipe, g.gemm, Side::a).source = rule_of(v.recipe, g.gemm, Side::b).source = OperandSource::values;
         v.recipe.keeps_quantized_x = false;
         return made_from_values(v, t);
       }},
  };
}

}  // namespace

std::vector<LayerCause> gemm_causes() {
  std::vector<LayerCause> all = gather_rows();
  for (auto* rows : {weight_rows, value_rows, block_rows}) {
    for (LayerCause& cause : rows()) all.push_back(std::move(cause));
  }
  return all;
}

}  // namespace mxcheck
