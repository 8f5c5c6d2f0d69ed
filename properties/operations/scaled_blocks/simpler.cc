// Simpler cases of the operations on scaled blocks, and large ones.

#include <algorithm>
#include <utility>

#include "properties/core/limits.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

// The relevant elements alone, moved to the first places.
void keep_relevant(Case& n, const std::vector<Plant>& relevant) {
  n.data = Data::zeros, n.plants.clear(), n.experts.clear(), n.stride = 0, n.threads = 0, n.gather = 0;
  n.misaligned = {};
  for (const Plant& p : relevant) {
    const bool seen = std::any_of(n.plants.begin(), n.plants.end(), [&](const Plant& q) { return q.bits == p.bits; });
    if (!seen) n.plants.push_back({0, static_cast<std::int64_t>(n.plants.size()), p.bits});
  }
  const bool column = blocks_of(std::as_const(n).variant).block.cols == 1;
  if (column) {
    for (Plant& p : n.plants) std::swap(p.row, p.col);
  }
  const auto count = static_cast<std::int64_t>(n.plants.size());
  n.rows = std::min<std::int64_t>(n.rows, column ? count : 1);
  n.cols = std::min<std::int64_t>(n.cols, column ? 1 : count);
}

}  // namespace

std::vector<Case> ScaledBlocksOperation::simpler(const Case& c, const Finding& finding) const {
  std::vector<Case> simpler;
  const auto with = [&](const auto& change) {
    Case n = c;
    change(n);
    fit_plants(n);
    fit_experts(n);
    if (n.stride != 0) n.stride = n.cols + (c.stride - c.cols);
    if (n != c) simpler.push_back(std::move(n));
  };
  if (c.data != Data::zeros && !finding.relevant.empty()) {
    with([&](Case& n) { keep_relevant(n, finding.relevant); });
    with([&](Case& n) { n.data = Data::zeros, n.plants = finding.relevant; });
  }
  if (!c.experts.empty()) {
    with([](Case& n) { n.experts.clear(); });
    for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, c.rows / 2, c.rows / 256 * 128}) {
      if (end <= c.rows && c.experts.size() > 3) with([&](Case& n) { n.experts = {0, end, n.rows}; });
    }
    if (c.experts.size() > 2) with([](Case& n) { n.experts.erase(n.experts.begin() + 1); });
    if (c.experts.size() > 2) with([](Case& n) { n.experts.erase(n.experts.end() - 2); });
  }
  if (c.stride != 0) with([](Case& n) { n.stride = 0; });
  if (c.threads != 0) with([](Case& n) { n.threads = 0; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned = {}; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned.inputs = {}; });
  if (c.misaligned.any()) with([](Case& n) { n.misaligned.outputs = {}; });
  if (c.gather != 0) with([](Case& n) { n.gather = 0; });
  if (c.gather > c.rows) with([](Case& n) { n.gather = std::max<std::int64_t>(1, n.rows); });
  for (const std::int64_t rows : smaller_extents(c.rows)) with([&](Case& n) { n.rows = rows; });
  for (const std::int64_t cols : smaller_extents(c.cols)) with([&](Case& n) { n.cols = cols; });
  if (c.data != Data::zeros && c.data != Data::codes) with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) with([](Case& n) { n.data = Data::zeros; });
  for (std::size_t i = 0; i < c.plants.size(); ++i) {
    with([&](Case& n) { n.plants.erase(n.plants.begin() + static_cast<std::ptrdiff_t>(i)); });
    if (c.plants[i].row != 0) with([&](Case& n) { n.plants[i].row = 0; });
    if (c.plants[i].col != 0) with([&](Case& n) { n.plants[i].col = 0; });
  }
  if (blocks_case(c).pad != 0) with([](Case& n) { blocks_case(n).pad = 0; });
  if (c.seed > 1) with([](Case& n) { n.seed = 1; });
  return simpler;
}

std::vector<Case> ScaledBlocksOperation::large_cases(const Variant& v, Suite suite) const {
  const ScaledBlocksVariant& blocks = blocks_of(v);
  const bool usual = v.dtype == Format::bf16 && blocks.recipe == "rceil" && blocks.format == Format::e4m3;
  if (suite == Suite::quick && !usual) return {};
  Case c;
  c.variant = v, c.rows = 1031, c.cols = 1037, c.data = Data::boundaries, c.seed = 5, blocks_case(c).pad = 1;
  if (!has_experts()) return {c};
  Case grouped = c;
  grouped.experts = {0, 3, 3, 515, 1031};
  return {c, grouped};
}

}  // namespace mxcheck
