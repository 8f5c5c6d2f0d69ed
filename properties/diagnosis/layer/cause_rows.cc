// Causes in what a GEMM multiplies: rows that are gathered, and experts' weights.

#include <algorithm>
#include <numeric>

#include "properties/diagnosis/layer/cause_tables.h"

namespace mxcheck {
namespace {

using Names = std::vector<std::string>;
const Names kByX{"H", "up_a_codes", "up_a_scales", "dW1", "d_w1_a_codes", "d_w1_a_scales"};
const Names kByDo{"P", "d_down_a_codes", "d_down_a_scales", "dW2", "d_w2_b_codes", "d_w2_b_scales"};
const Names kByW1{"H", "up_b_codes", "up_b_scales", "dX_rows", "d_up_b_codes", "d_up_b_scales"};
const Names kByW2{"Y", "down_b_codes", "down_b_scales", "P", "d_down_b_codes", "d_down_b_scales"};

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

std::vector<LayerCause> gather_causes() {
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

std::vector<LayerCause> weight_causes() {
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

}  // namespace mxcheck
