#include <algorithm>
#include <utility>

#include "properties/core/limits.h"
#include "properties/operations/matmul/operation.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostMultiplications = std::int64_t{1} << 24;
constexpr std::int64_t kMostExact = std::int64_t{1} << 20;  // integers: the exact sums are slow

std::int64_t draw_rows(Draw& draw, std::int64_t multiple, std::int64_t limit) {
  static constexpr std::int64_t kEdges[] = {1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257};
  const std::uint64_t kind = draw.below(100);
  std::int64_t extent = kind < 2 ? 0 : kind < 45 ? draw.pick(kEdges) : draw.between(1, 300);
  return to_multiple(extent, multiple, limit);
}

// Mostly whole blocks of 128, of which there are none, one, a few, or more than a pipeline has stages.
std::int64_t draw_depth(Draw& draw) {
  static constexpr std::int64_t kTails[] = {1, 8, 16, 31, 32, 33, 64, 96, 127, 129, 160, 250, 272};
  const std::uint64_t kind = draw.below(100);
  if (kind < 2) return 0;
  if (kind < 20) return draw.pick(kTails);
  return 128 * (kind < 80 ? draw.between(1, 5) : draw.between(6, 20));
}

// Ends of groups: repeated (empty groups), beside tile edges, anywhere; along depth mostly at multiples of 128.
void draw_groups(Draw& draw, Case& c) {
  const bool depth = matmul_of(c.variant).groups == MXCHECK_DEPTH;
  const std::int64_t end = depth ? matmul_case(c).depth : c.rows;
  const std::int64_t count = draw.between(1, 7);
  const bool whole = depth && !draw.chance(15);
  c.experts = {0};
  for (std::int64_t e = 1; e < count; ++e) {
    const std::uint64_t kind = draw.below(3);
    std::int64_t next = draw.between(0, end);
    if (kind == 0) next = c.experts.back();
    if (kind == 1) next = std::min(end, c.experts.back() + 128 * draw.between(0, 2) + draw.between(0, 1));
    if (whole) next = next / 128 * 128;
    c.experts.push_back(next);
  }
  c.experts.push_back(end);
  std::sort(c.experts.begin(), c.experts.end());
}

// Extents halved until the multiplications are few enough: depth first while there is much of it.
void shrink_to_most(Case& c, const OperationInfo& limits) {
  const auto halve = [](std::int64_t& extent, std::int64_t multiple) {
    extent = std::max(multiple, extent / 2 / multiple * multiple);
  };
  std::int64_t& depth = matmul_case(c).depth;
  const std::int64_t most = c.data == Data::codes ? kMostExact : kMostMultiplications;
  while (c.elements() > kMostDrawnElements || c.elements() * depth > most) {
    const std::int64_t before = c.elements() * depth;
    if (depth > 1024)
      halve(depth, 128);
    else if (c.rows > c.cols)
      halve(c.rows, limits.rows_multiple);
    else
      halve(c.cols, limits.cols_multiple);
    if (c.elements() * depth == before) break;
  }
}

}  // namespace

Case draw_matmul(const Statement& statement, const Variant& variant, const CandidateRunner& process, Draw& draw) {
  Case c;
  c.variant = variant;
  c.seed = draw.word() >> 16;
  c.data = draw.pick(statement.data);
  const OperationInfo& limits = *process.operation(variant.operation);
  c.rows = draw_rows(draw, limits.rows_multiple, limits.max_rows);
  c.cols = draw_rows(draw, limits.cols_multiple, limits.max_cols);
  matmul_case(c).depth = draw_depth(draw);
  shrink_to_most(c, limits);
  const int groups = matmul_of(variant).groups;
  if (groups != MXCHECK_DENSE) draw_groups(draw, c);
  const MatmulContract contract = parse_matmul_contract(contract_text(variant.operation));
  matmul_case(c).adds = draw.chance(contract.from_c ? 60 : 25);
  static constexpr float kAlphas[] = {0.5F, -1, 1.0F / 3};
  if (!contract.from_c && draw.chance(5)) matmul_case(c).alpha = draw.pick(kAlphas);
  if (c.rows > 0 && groups != MXCHECK_DEPTH && draw.chance(15)) {
    const std::int64_t sources[] = {1, c.rows + 7, c.rows, 2 * c.rows, c.rows / 2};
    c.gather = std::max<std::int64_t>(1, draw.pick(sources));
  }
  return c;
}

std::vector<Case> simpler_matmuls(const Case& c, const Finding&) {
  std::vector<Case> simpler;
  const std::int64_t depth = matmul_case(c).depth;
  const std::int64_t whole = matmul_of(c.variant).groups == MXCHECK_DEPTH ? depth : c.rows;
  const auto with = [&](const auto& change) {
    Case n = c;
    change(n);
    fit_experts(n);
    if (n != c) simpler.push_back(std::move(n));
  };
  if (c.experts.size() > 2) with([&](Case& n) { n.experts = {0, whole}; });
  for (const std::int64_t less : {depth / 256 * 128, depth / 2, std::int64_t{128}, std::int64_t{32}}) {
    if (less > 0 && less < depth) with([&](Case& n) { matmul_case(n).depth = less; });
  }
  for (const std::int64_t less : smaller_extents(depth)) with([&](Case& n) { matmul_case(n).depth = less; });
  if (matmul_case(c).adds) with([](Case& n) { matmul_case(n).adds = false; });
  if (matmul_case(c).alpha != 1) with([](Case& n) { matmul_case(n).alpha = 1; });
  if (!c.experts.empty()) {
    for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, whole / 2, whole / 256 * 128}) {
      if (end <= whole && c.experts.size() > 3) with([&](Case& n) { n.experts = {0, end, whole}; });
    }
    if (c.experts.size() > 2) with([](Case& n) { n.experts.erase(n.experts.begin() + 1); });
    if (c.experts.size() > 2) with([](Case& n) { n.experts.erase(n.experts.end() - 2); });
  }
  if (c.threads != 0) with([](Case& n) { n.threads = 0; });
  if (c.gather != 0) with([](Case& n) { n.gather = 0; });
  if (c.gather > c.rows) with([](Case& n) { n.gather = std::max<std::int64_t>(1, n.rows); });
  for (const std::int64_t rows : smaller_extents(c.rows)) with([&](Case& n) { n.rows = rows; });
  for (const std::int64_t cols : smaller_extents(c.cols)) with([&](Case& n) { n.cols = cols; });
  if (c.data != Data::zeros && c.data != Data::codes) with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) with([](Case& n) { n.data = Data::zeros; });
  if (c.seed > 1) with([](Case& n) { n.seed = 1; });
  return simpler;
}

}  // namespace mxcheck
