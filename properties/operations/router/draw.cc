// Cases of routers: tokens around edges of tiles, few and many experts, one to all of them chosen.

#include <algorithm>
#include <bit>

#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostLogits = 6'000;  // exp, correctly rounded, takes its time
constexpr std::int64_t kMostSlots = 20'000;

std::int64_t to_multiple(std::int64_t extent, std::int64_t multiple, std::int64_t limit) {
  extent = (extent + multiple - 1) / multiple * multiple;
  return limit > 0 ? std::min(extent, limit / multiple * multiple) : extent;
}

std::int64_t draw_tokens(Draw& draw) {
  static constexpr std::int64_t kEdges[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 256, 257};
  const std::uint64_t kind = draw.below(100);
  if (kind < 2) return 0;
  return kind < 50 ? draw.pick(kEdges) : draw.between(1, kind < 85 ? 120 : 600);
}

std::int64_t draw_experts(Draw& draw) {
  static constexpr std::int64_t kUsual[] = {1,  2,  3,  4,  5,  7,  8,  8,  12,  16,  16,
                                            24, 31, 32, 33, 40, 64, 64, 96, 128, 160, 256};
  return draw.chance(75) ? draw.pick(kUsual) : draw.between(1, 70);
}

std::int64_t draw_top_k(Draw& draw, std::int64_t most) {
  static constexpr std::int64_t kUsual[] = {1, 1, 2, 2, 4, 6, 8};
  const std::uint64_t kind = draw.below(100);
  if (kind < 8) return most;
  return std::min(most, kind < 75 ? draw.pick(kUsual) : draw.between(1, std::min<std::int64_t>(most, 16)));
}

std::int64_t draw_tile(Draw& draw) {
  static constexpr std::int64_t kTiles[] = {1, 2, 2, 3, 4, 4, 5, 8, 8, 16, 32, 64, 128};
  return draw.pick(kTiles);
}

// A divisor of the experts, at least half of them of two or more each.
void draw_groups(Draw& draw, Case& c) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t g = 1; g <= std::min<std::int64_t>(c.cols, 32); ++g) {
    if (c.cols % g == 0) divisors.push_back(g);
  }
  c.groups = draw.pick(divisors);
  c.groups_kept = draw.between(1, c.groups);
}

void draw_rounding(Draw& draw, Case& c) {
  c.tile = rounds_to_tiles(token_rounding_rule_named(c.variant.rule)) ? draw_tile(draw) : 1;
  const std::int64_t fair = c.rows * c.top_k / c.cols;
  const std::int64_t capacities[] = {0, 1, fair, fair, fair + 1, 2 * fair, c.rows + 5, draw.between(0, c.rows)};
  const TokenRoundingRule rule = token_rounding_rule_named(c.variant.rule);
  const bool limits = rule == TokenRoundingRule::expert_choice || rule == TokenRoundingRule::capacity_order ||
                      rule == TokenRoundingRule::capacity_score;
  if (limits) c.capacity = draw.pick(capacities);
  if (rule != TokenRoundingRule::sr_f) return;
  c.step = draw.word() >> (draw.chance(50) ? 40 : 0);
  c.layer = static_cast<std::uint32_t>(draw.word() >> (draw.chance(50) ? 56 : 32));
}

}  // namespace

void fit_route(Case& c) {
  if (!is_route(c.variant.operation)) return;
  c.tile = std::max<std::int64_t>(1, c.tile);
  c.cols = std::max<std::int64_t>(1, c.cols);
  if (c.variant.operation == "route_metadata") return;
  std::int64_t most = c.cols;
  if (c.variant.limited) {
    c.groups = std::clamp<std::int64_t>(c.groups, 1, c.cols);
    while (c.cols % c.groups != 0) --c.groups;
    c.groups_kept = std::clamp<std::int64_t>(c.groups_kept, 1, c.groups);
    most = c.groups_kept * (c.cols / c.groups);
  }
  c.top_k = std::clamp<std::int64_t>(c.top_k, 1, most);
}

Case route_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Data data,
                  std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = tokens, c.cols = experts, c.top_k = top_k, c.data = data, c.seed = seed;
  if (v.limited) c.groups = 4, c.groups_kept = 2;
  fit_route(c);
  return c;
}

Case draw_route(const Statement& statement, const Variant& variant, const CandidateRunner& process, Draw& draw) {
  Case c;
  c.variant = variant;
  c.seed = draw.word() >> 16;
  c.data = draw.pick(statement.data);
  const OperationInfo* limits = process.operation(variant.operation);
  const bool metadata = variant.operation == "route_metadata";
  c.cols = to_multiple(draw_experts(draw), limits->cols_multiple, limits->max_cols);
  c.rows = to_multiple(draw_tokens(draw), limits->rows_multiple, limits->max_rows);
  const std::int64_t most = metadata ? kMostSlots : kMostLogits;
  while (c.elements() > most && c.rows > limits->rows_multiple)
    c.rows = std::max(limits->rows_multiple, c.rows / 2 / limits->rows_multiple * limits->rows_multiple);
  if (variant.limited) draw_groups(draw, c);
  c.top_k = draw_top_k(draw, variant.limited ? c.groups_kept * (c.cols / c.groups) : c.cols);
  if (metadata && draw.chance(40)) c.top_k = 0;
  if (metadata) c.tile = draw_tile(draw);
  if (variant.operation == "route_round") draw_rounding(draw, c);
  static constexpr float kScales[] = {2.5F, 0.5F, 1.0F / 3};
  if (!metadata && draw.chance(20)) c.scale = draw.pick(kScales);
  static constexpr int kDrops[] = {5, 30, 100};
  if ((metadata || variant.operation == "route_backward") && draw.chance(40)) c.drops = draw.pick(kDrops);
  static constexpr std::int64_t kGaps[] = {1, 3, 8, 32};
  if (statement.strides && reads_logits(variant) && draw.chance(20)) c.stride = c.cols + draw.pick(kGaps);
  if (draw.chance(25)) c.threads = static_cast<int>(draw.between(1, 4));
  fit_route(c);
  return c;
}

std::vector<Case> simpler_routes(const Case& c, const Finding& finding) {
  std::vector<Case> simpler;
  const auto with = [&](auto change) {
    Case n = c;
    change(n);
    fit_route(n);
    std::erase_if(n.plants, [&](const Plant& p) { return p.row >= n.rows || p.col >= n.cols; });
    if (n.stride != 0) n.stride = n.cols + (c.stride - c.cols);
    if (n != c) simpler.push_back(std::move(n));
  };
  // 1, halves, one less: whatever the threshold, it is found in few steps.
  const auto shrink = [&](std::int64_t value, std::int64_t least, auto set) {
    if (value <= least) return;
    for (const std::int64_t n : {least, value / 8, value / 4, value / 2, value - value / 4, value - 1}) {
      if (n >= least && n < value) with([&](Case& to) { set(to, n); });
    }
  };
  if (c.data != Data::zeros && !finding.culprits.empty() && reads_logits(c.variant)) {
    with([&](Case& n) {  // the token alone, its logits planted
      n.data = Data::zeros, n.plants = finding.culprits, n.rows = 1, n.stride = 0, n.threads = 0;
      for (Plant& p : n.plants) p.row = 0;
    });
    with([&](Case& n) { n.data = Data::zeros, n.plants = finding.culprits; });
  }
  shrink(c.rows, 1, [](Case& n, std::int64_t to) { n.rows = to; });
  shrink(c.cols, 1, [](Case& n, std::int64_t to) { n.cols = to; });
  if (c.top_k != 0) shrink(c.top_k, 1, [](Case& n, std::int64_t to) { n.top_k = to; });
  if (c.top_k == 0) with([](Case& n) { n.top_k = 1; });
  shrink(c.tile, 1, [](Case& n, std::int64_t to) { n.tile = to; });
  shrink(c.capacity, 0, [](Case& n, std::int64_t to) { n.capacity = to; });
  shrink(c.groups, 1, [](Case& n, std::int64_t to) { n.groups = to; });
  shrink(c.groups_kept, 1, [](Case& n, std::int64_t to) { n.groups_kept = to; });
  if (c.stride != 0) with([](Case& n) { n.stride = 0; });
  if (c.threads != 0) with([](Case& n) { n.threads = 0; });
  if (c.scale != 1) with([](Case& n) { n.scale = 1; });
  if (c.step != 0) with([](Case& n) { n.step = 0; });
  if (c.layer != 0) with([](Case& n) { n.layer = 0; });
  if (c.drops != 0) with([](Case& n) { n.drops = 0; });
  if (c.data != Data::zeros && c.data != Data::codes) with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) with([](Case& n) { n.data = Data::zeros; });
  for (std::size_t i = 0; i < c.plants.size(); ++i) {
    with([&](Case& n) { n.plants.erase(n.plants.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}}) {
    if (c.seed > seed) with([&](Case& n) { n.seed = seed; });
  }
  return simpler;
}

}  // namespace mxcheck
