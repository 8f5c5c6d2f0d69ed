// Simpler cases in place of a failing one: windows of its matrices, the place that differs first, then smaller ones.

#include <algorithm>
#include <utility>

#include "properties/core/limits.h"
#include "properties/operations/layer/operation.h"

namespace mxcheck {
namespace {

using Cases = std::vector<Case>;

class Simpler {
 public:
  explicit Simpler(const Case& c) : c_(c) {}

  template <class Change>
  void with(const Change& change) {
    Case n = c_;
    change(n);
    fit_experts(n);
    if (n.stride != 0) n.stride = n.cols + (c_.stride - c_.cols);
    if (n != c_) all_.push_back(std::move(n));
  }

  // Gates that are numbered row by row stay those that they are.
  static void move(Case& n, std::int64_t row, std::int64_t col) {
    if (n.data == Data::every_word) {
      n.seed += static_cast<std::uint64_t>(row * n.cols + col);
    } else {
      layer_case(n).first_row += row, layer_case(n).first_col += col;
    }
  }

  Cases take() { return std::move(all_); }

 private:
  const Case& c_;
  Cases all_;
};

// The row, the element or the block's beginning alone.
void windows(const Case& c, const Finding& finding, Simpler& simpler) {
  for (const Plant& p : finding.relevant) {
    const std::int64_t col = std::max<std::int64_t>(0, p.col);
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{32}, std::int64_t{128}}) {
      for (const std::int64_t cols : {std::int64_t{1}, std::int64_t{32}, std::int64_t{128}, c.cols}) {
        if (p.row >= c.rows || col >= c.cols) continue;
        simpler.with([&](Case& n) {
          if (cols != c.cols) Simpler::move(n, p.row, col), n.cols = std::min(cols, c.cols - col);
          if (cols == c.cols) Simpler::move(n, p.row, 0);
          n.rows = std::min(rows, c.rows - p.row);
          n.experts.clear(), n.stride = 0, n.threads = 0, n.misaligned = {};
        });
      }
    }
  }
}

void fewer_experts(const Case& c, Simpler& simpler) {
  if (c.experts.empty()) return;
  simpler.with([](Case& n) { n.experts.clear(); });
  for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, c.rows / 2}) {
    if (end <= c.rows && c.experts.size() > 3) simpler.with([&](Case& n) { n.experts = {0, end, n.rows}; });
  }
  if (c.experts.size() <= 2) return;
  simpler.with([](Case& n) { n.experts.erase(n.experts.begin() + 1); });
  simpler.with([](Case& n) { n.experts.erase(n.experts.end() - 2); });
}

void smaller_steps(const Case& c, Simpler& simpler) {
  const LayerCase& own = layer_case(c);
  if (c.rows > 1) simpler.with([](Case& n) { Simpler::move(n, n.rows / 2, 0), n.rows -= n.rows / 2; });
  for (const std::int64_t rows : smaller_extents(c.rows)) simpler.with([&](Case& n) { n.rows = rows; });
  for (const std::int64_t cols : smaller_extents(c.cols)) simpler.with([&](Case& n) { n.cols = cols; });
  for (const std::int64_t rows : smaller_extents(own.y_rows))
    simpler.with([&](Case& n) { layer_case(n).y_rows = rows; });
  for (const std::int64_t most : smaller_extents(own.most)) simpler.with([&](Case& n) { layer_case(n).most = most; });
  if (own.drops != 0) simpler.with([](Case& n) { layer_case(n).drops = 0; });
}

}  // namespace

std::vector<Case> simpler_steps(const Case& c, const Finding& finding) {
  Simpler simpler(c);
  if (c.rows > 1 || c.cols > 1) windows(c, finding, simpler);
  fewer_experts(c, simpler);
  if (c.stride != 0) simpler.with([](Case& n) { n.stride = 0; });
  if (c.threads != 0) simpler.with([](Case& n) { n.threads = 0; });
  if (c.misaligned.any()) simpler.with([](Case& n) { n.misaligned = {}; });
  if (c.misaligned.any()) simpler.with([](Case& n) { n.misaligned.inputs = {}; });
  if (c.misaligned.any()) simpler.with([](Case& n) { n.misaligned.outputs = {}; });
  smaller_steps(c, simpler);
  if (c.data != Data::zeros && c.data != Data::codes) simpler.with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) simpler.with([](Case& n) { n.data = Data::zeros; });
  const LayerCase& own = layer_case(c);
  if (own.first_row != 0) simpler.with([](Case& n) { layer_case(n).first_row = 0; });
  if (own.first_col != 0) simpler.with([](Case& n) { layer_case(n).first_col = 0; });
  if (c.seed > 1 && c.data != Data::every_word) simpler.with([](Case& n) { n.seed = 1; });
  return simpler.take();
}

}  // namespace mxcheck
