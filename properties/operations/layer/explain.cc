// The part of a counterexample that a person reads first: gate and up value, each step of the formula, and of codes the
// block.

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/notation.h"
#include "properties/operations/layer/problem.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

using What = SwigluOutput::What;
using Part = SwigluOutput::Part;

std::string fp32(float value) { return notations(Format::fp32, std::bit_cast<std::uint32_t>(value)); }

// Rows [row, end_row), columns [col, end_col) of the tensor before it was transposed.
struct Place {
  std::int64_t row, end_row, col, end_col;
};

// The block of a code or a scale, which starts again at its expert.
Place block_of(const SwigluProblem& p, const SwigluOutput& o, const Difference::Element& e, std::int64_t cols) {
  const std::int64_t block = layer_of(p.c.variant).block;
  if (!o.transposed) {
    const std::int64_t first = o.part == Part::scales ? e.col * block : e.col / block * block;
    return {e.row, e.row + 1, first, std::min(cols, first + block)};
  }
  const std::vector<std::int64_t> ends = p.c.experts.empty() ? std::vector<std::int64_t>{0, p.c.rows} : p.c.experts;
  std::int64_t number = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    for (std::int64_t row = ends[i - 1]; row < ends[i]; row += block, ++number) {
      const std::int64_t end = std::min(ends[i], row + block);
      if (o.part == Part::scales ? number == e.col : e.col >= row && e.col < end) return {row, end, e.row, e.row + 1};
    }
  }
  return {0, 0, e.row, e.row + 1};
}

void explain_gate(const SwigluProblem& p, const SwigluOutput& o, std::int64_t row, std::int64_t col, Finding& finding) {
  const std::int64_t n = p.c.cols;
  const bool of_dh = o.what == What::dh;
  const bool halves = layer_of(p.c.variant).gate_up == MXCHECK_HALVES;
  const std::int64_t j = !of_dh ? col : halves ? col % n : col / 2;
  const bool is_up = of_dh && col == p.up_column(j);
  const std::vector<float> h = p.values_of_h();
  const float g = h[static_cast<std::size_t>(row * 2 * n + p.gate_column(j))];
  const float u = h[static_cast<std::size_t>(row * 2 * n + p.up_column(j))];
  const float q = swiglu_sigmoid(g);
  const float a = std::bit_cast<float>(std::uint32_t{layer_bf16(swiglu(g, u))} << 16);
  const auto add = [&](std::string line) { finding.element.push_back(std::move(line)); };
  add(fmt::format("input     g = h({}, {}) = {}", row, p.gate_column(j), fp32(g)));
  add(fmt::format("input     u = h({}, {}) = {}", row, p.up_column(j), fp32(u)));
  add("sigmoid   q = " + fp32(q));
  if (!is_backward(p.c.variant)) return add("value     a = " + fp32(a) + ", in BF16");
  const float gradient = p.p[static_cast<std::size_t>(row * n + j)];
  const float weight = p.weights[static_cast<std::size_t>(row)];
  add(fmt::format("input     p({}, {}) = {}", row, j, fp32(gradient)));
  add(fmt::format("input     weight({}) = {}", row, fp32(weight)));
  if (!of_dh) return add("value     a = " + fp32(a) + ", in BF16; weight * a = " + fp32(weight * a));
  const SwigluGradient d = swiglu_gradient(g, u, weight * gradient);
  add("value     dA = " + fp32(weight * gradient) +
      (is_up ? "; du = dA * RN(g * q) = " + fp32(d.du)
             : "; dg = dA * RN(u * RN(q * fma(g, RN(1 - q), 1))) = " + fp32(d.dg)));
}

// The block's amax, of the values that the reference coded.
void explain_block(const SwigluProblem& p, const SwigluOutput& o, const Place& b, Format format, Finding& finding) {
  SwigluProblem values = p;  // the same with its tensors in BF16
  layer_of(values.c.variant).outputs = MXCHECK_VALUES;
  values.describe_outputs();
  const std::vector<SwigluOutput> made_of = swiglu_outputs(values.c.variant);
  const std::vector<ExpectedTensor> answer = values.answer();
  BlockAmax amax;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (made_of[i].what != o.what) continue;
    const auto words = values_in<std::uint16_t>(answer[i].bytes);
    for (std::int64_t row = b.row; row < b.end_row; ++row) {
      for (std::int64_t col = b.col; col < b.end_col; ++col) {
        const std::uint16_t word = words[static_cast<std::size_t>(row * answer[i].info.cols + col)];
        const auto value = std::bit_cast<float>(std::uint32_t{word} << 16);
        if (std::isnan(value)) amax.has_nan = true;
        if (std::fabs(value) > amax.amax) amax.amax = std::fabs(value);
      }
    }
  }
  finding.element.push_back(fmt::format("block     rows {} to {}, columns {} to {}; amax {}{}", b.row, b.end_row - 1,
                                        b.col, b.end_col - 1, fp32(amax.amax), amax.has_nan ? "; it holds a NaN" : ""));
  const BlockScale scale = block_scale(recipe_named(layer_of(p.c.variant).recipe), format, amax);
  finding.element.push_back("scale     " + notations(static_cast<double>(scale.scale)) + " by the reference");
}

}  // namespace

void SwigluProblem::explain(std::size_t output, Finding& finding) const {
  const SwigluOutput o = swiglu_outputs(c.variant)[output];
  const Difference::Element& e = finding.difference->first;
  if (o.what == What::ds) {
    finding.element.push_back(fmt::format("row       {}: the pairwise sum of RN(p * a) over {} columns; weight {}",
                                          e.col, c.cols, fp32(weights[static_cast<std::size_t>(e.col)])));
    finding.relevant.push_back({e.col, -1, 0});
  } else if (o.part == Part::values) {
    explain_gate(*this, o, e.row, e.col, finding);
    const std::int64_t j = o.what != What::dh                              ? e.col
                           : layer_of(c.variant).gate_up == MXCHECK_HALVES ? e.col % c.cols
                                                                           : e.col / 2;
    finding.relevant.push_back({e.row, j, 0});
  } else {
    const Place b = block_of(*this, o, e, o.what == What::dh ? 2 * c.cols : c.cols);
    if (o.part == Part::codes)
      explain_gate(*this, o, o.transposed ? e.col : e.row, o.transposed ? e.row : e.col, finding);
    explain_block(*this, o, b, outputs[o.part == Part::codes ? output : output - 1].format, finding);
    finding.relevant.push_back({b.row, o.what == What::dh ? -1 : b.col, 0});
  }
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

}  // namespace mxcheck
