// Cases of the operations on scaled blocks: shapes around block edges, experts that end beside them, and simpler cases.

#include <algorithm>
#include <utility>

#include "properties/core/limits.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

std::int64_t draw_extent(Draw& draw, std::int64_t block, std::int64_t multiple, std::int64_t limit) {
  static constexpr std::int64_t kEdges[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  std::int64_t extent = 0;
  const std::uint64_t kind = draw.below(100);
  if (kind < 2) {
    extent = 0;
  } else if (kind < 30) {
    extent = draw.pick(kEdges);
  } else if (kind < 60) {
    extent = block * draw.between(1, 5) + draw.between(-1, 1);
  } else if (kind < 75) {
    extent = block * draw.between(1, 9);
  } else {
    extent = draw.between(1, 300);
  }
  return to_multiple(extent, multiple, limit);
}

// Ends beside block edges, repeated ends (experts without rows), and anywhere.
void draw_experts(Draw& draw, Case& c) {
  const std::int64_t count = draw.between(1, 7);
  c.experts = {0};
  for (std::int64_t e = 1; e < count; ++e) {
    const std::uint64_t kind = draw.below(3);
    std::int64_t end = draw.between(0, c.rows);
    if (kind == 0) end = c.experts.back();
    if (kind == 1) end = std::min(c.rows, c.experts.back() + 32 * draw.between(0, 4) + draw.between(0, 1));
    c.experts.push_back(end);
  }
  c.experts.push_back(c.rows);
  std::sort(c.experts.begin(), c.experts.end());
}

// The larger extent halved, or the other where multiples hold that one up.
void shrink_to_most(Case& c, const OperationInfo& limits) {
  const auto halve = [](std::int64_t& extent, std::int64_t multiple) {
    const std::int64_t half = std::max(multiple, extent / 2 / multiple * multiple);
    return half < std::exchange(extent, std::min(extent, half));
  };
  while (c.elements() > kMostDrawnElements) {
    const bool rows_first = c.rows > c.cols;
    if (rows_first && halve(c.rows, limits.rows_multiple)) continue;
    if (halve(c.cols, limits.cols_multiple)) continue;
    if (rows_first || !halve(c.rows, limits.rows_multiple)) break;
  }
}

// The relevant elements alone, moved to the first places.
void keep_relevant(Case& n, const std::vector<Plant>& relevant) {
  n.data = Data::zeros, n.plants.clear(), n.experts.clear(), n.stride = 0, n.threads = 0, n.gather = 0;
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

Case ScaledBlocksOperation::draw(const Statement& s, const Variant& v, const CandidateRunner& process,
                                 Draw& draw) const {
  Case c;
  c.variant = v;
  c.seed = draw.word() >> 16;  // 48 bits: readable in a reproduce line
  c.data = draw.pick(s.data);
  const OperationInfo& limits = *process.operation(v.operation);
  const BlockShape block = blocks_of(v).block;
  c.rows = draw_extent(draw, block.rows == 0 ? 1 : block.rows, limits.rows_multiple, limits.max_rows);
  c.cols = draw_extent(draw, block.cols == 0 ? 64 : block.cols, limits.cols_multiple, limits.max_cols);
  shrink_to_most(c, limits);
  static constexpr std::int64_t kGaps[] = {1, 3, 8, 32};
  if (s.strides && reads_x_ && draw.chance(20)) c.stride = c.cols + draw.pick(kGaps);
  if (c.rows > 0 && has_experts() && draw.below(100) < static_cast<std::uint64_t>(s.experts)) draw_experts(draw, c);
  static constexpr std::uint8_t kPads[] = {0, 127, 254, 255, 90};
  blocks_case(c).pad = draw.pick(kPads);
  if (draw.chance(25)) c.threads = static_cast<int>(draw.between(1, 4));
  // A row index: from more rows, as many, or fewer, which repeat. The interface has it for CUDA libraries.
  if (process.info().cuda && reads_x_ && has_experts() && draw.chance(20)) {
    const std::int64_t sources[] = {1, c.rows + 7, c.rows, 2 * c.rows, c.rows / 2};
    c.gather = std::max<std::int64_t>(1, draw.pick(sources));
  }
  return c;
}

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
