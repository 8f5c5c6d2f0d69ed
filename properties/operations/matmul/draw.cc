#include <algorithm>
#include <utility>

#include "kernels/candidate_matmul.h"
#include "properties/gate/generate.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostMultiplications = std::int64_t{1} << 24;
constexpr std::int64_t kMostExact = std::int64_t{1} << 20;  // integers: the exact sums are slow
constexpr std::int64_t kMostOutputs = 50'000;

std::int64_t draw_rows(Draw& draw, std::int64_t multiple, std::int64_t limit) {
  static constexpr std::int64_t kEdges[] = {1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257};
  const std::uint64_t kind = draw.below(100);
  std::int64_t extent = kind < 2 ? 0 : kind < 45 ? draw.pick(kEdges) : draw.between(1, 300);
  extent = (extent + multiple - 1) / multiple * multiple;
  return limit > 0 ? std::min(extent, limit / multiple * multiple) : extent;
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
  const std::int64_t end = experts_end(c);
  const bool depth = c.variant.groups == MXCHECK_DEPTH;
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

}  // namespace

Case draw_product(const Statement& statement, const Variant& variant, const CandidateRunner& process, Draw& draw) {
  Case c;
  c.variant = variant;
  c.seed = draw.word() >> 16;
  c.data = draw.pick(statement.data);
  const OperationInfo* limits = process.operation(variant.operation);
  c.rows = draw_rows(draw, limits->rows_multiple, limits->max_rows);
  c.cols = draw_rows(draw, limits->cols_multiple, limits->max_cols);
  c.depth = draw_depth(draw);
  const auto halve = [](std::int64_t& extent, std::int64_t multiple) {
    extent = std::max(multiple, extent / 2 / multiple * multiple);
  };
  const std::int64_t most = c.data == Data::codes ? kMostExact : kMostMultiplications;
  while (c.elements() > kMostOutputs || c.elements() * c.depth > most) {
    const std::int64_t before = c.elements() * c.depth;
    if (c.depth > 1024)
      halve(c.depth, 128);
    else if (c.rows > c.cols)
      halve(c.rows, limits->rows_multiple);
    else
      halve(c.cols, limits->cols_multiple);
    if (c.elements() * c.depth == before) break;
  }
  if (variant.groups != MXCHECK_DENSE) draw_groups(draw, c);
  const MatmulContract contract = parse_matmul_contract(contract_text(variant.operation));
  c.adds = draw.chance(contract.from_c ? 60 : 25);
  static constexpr float kAlphas[] = {0.5F, -1, 1.0F / 3};
  if (!contract.from_c && draw.chance(5)) c.alpha = draw.pick(kAlphas);
  if (c.rows > 0 && variant.groups != MXCHECK_DEPTH && draw.chance(15)) {
    const std::int64_t sources[] = {1, c.rows + 7, c.rows, 2 * c.rows, c.rows / 2};
    c.gather = std::max<std::int64_t>(1, draw.pick(sources));
  }
  return c;
}

}  // namespace mxcheck
