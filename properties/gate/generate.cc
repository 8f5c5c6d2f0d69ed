#include "properties/gate/generate.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostElements = 50'000;

// Operations of routers, and how much each weighs where it is offered.
struct RouteWeight {
  const char* operation;
  std::size_t weight;
};
constexpr RouteWeight kRouteWeights[] = {
    {"route", 40}, {"route_round", 80}, {"route_metadata", 20}, {"route_backward", 20}};

// The variants of one operation, which follow one another.
std::span<const Variant> of_operation(std::span<const Variant> variants, std::string_view operation) {
  const auto is_it = [&](const Variant& v) { return v.operation == operation; };
  const auto begin = std::find_if(variants.begin(), variants.end(), is_it);
  return {begin, std::find_if_not(begin, variants.end(), is_it)};
}

std::size_t others(std::span<const Variant> variants) {
  return static_cast<std::size_t>(
      std::count_if(variants.begin(), variants.end(), [](const Variant& v) { return !is_route(v.operation); }));
}

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
  extent = (extent + multiple - 1) / multiple * multiple;
  return limit > 0 ? std::min(extent, limit / multiple * multiple) : extent;
}

void draw_experts(Draw& draw, Case& c) {
  const std::int64_t count = draw.between(1, 7);
  c.experts = {0};
  for (std::int64_t e = 1; e < count; ++e) {
    // Ends beside block edges, repeated ends (experts without rows), and anywhere.
    const std::uint64_t kind = draw.below(3);
    std::int64_t end = draw.between(0, c.rows);
    if (kind == 0) end = c.experts.back();
    if (kind == 1) end = std::min(c.rows, c.experts.back() + 32 * draw.between(0, 4) + draw.between(0, 1));
    c.experts.push_back(end);
  }
  c.experts.push_back(c.rows);
  std::sort(c.experts.begin(), c.experts.end());
}

// Plants stay where they are if they can, else move to the edge.
void fit_plants(Case& c) {
  if (c.elements() == 0) c.plants.clear();
  for (Plant& p : c.plants) p.row = std::min(p.row, c.rows - 1), p.col = std::min(p.col, c.cols - 1);
}

}  // namespace

std::size_t weight_of(std::span<const Variant> variants) {
  std::size_t weight = others(variants);
  for (const RouteWeight& route : kRouteWeights) {
    if (!of_operation(variants, route.operation).empty()) weight += route.weight;
  }
  return weight;
}

const Variant& draw_variant(std::span<const Variant> variants, Draw& draw) {
  std::uint64_t at = draw.below(weight_of(variants));
  const std::size_t plain = others(variants);
  if (at < plain) return variants[at];
  at -= plain;
  for (const RouteWeight& route : kRouteWeights) {
    const std::span<const Variant> mine = of_operation(variants, route.operation);
    if (mine.empty()) continue;
    if (at < route.weight) return mine[draw.below(mine.size())];
    at -= route.weight;
  }
  return variants.back();
}

void fit_experts(Case& c) {
  for (std::int64_t& end : c.experts) end = std::min(end, experts_end(c));
  if (!c.experts.empty()) c.experts.back() = experts_end(c);
}

Case draw_case(const Statement& statement, std::span<const Variant> variants, const CandidateRunner& process,
               Draw& draw) {
  Case c;
  c.variant = draw_variant(variants, draw);
  if (is_matmul(c.variant.operation)) return draw_product(statement, c.variant, process, draw);
  if (is_route(c.variant.operation)) return draw_route(statement, c.variant, process, draw);
  c.seed = draw.word() >> 16;  // 48 bits: readable in a reproduce line
  c.data = draw.pick(statement.data);
  const OperationInfo* limits = process.operation(c.variant.operation);
  const std::int64_t block_rows = c.variant.block.rows == 0 ? 1 : c.variant.block.rows;
  const std::int64_t block_cols = c.variant.block.cols == 0 ? 64 : c.variant.block.cols;
  c.rows = draw_extent(draw, block_rows, limits->rows_multiple, limits->max_rows);
  c.cols = draw_extent(draw, block_cols, limits->cols_multiple, limits->max_cols);
  const auto halve = [](std::int64_t& extent, std::int64_t multiple) {
    const std::int64_t half = std::max(multiple, extent / 2 / multiple * multiple);
    return half < std::exchange(extent, std::min(extent, half));
  };
  while (c.elements() > kMostElements) {  // the larger extent, or the other where multiples hold that one up
    const bool rows_first = c.rows > c.cols;
    if (rows_first && halve(c.rows, limits->rows_multiple)) continue;
    if (halve(c.cols, limits->cols_multiple)) continue;
    if (rows_first || !halve(c.rows, limits->rows_multiple)) break;
  }
  const bool has_x = reads_x(c.variant);
  const bool is_cast = c.variant.operation == "cast";
  static constexpr std::int64_t kGaps[] = {1, 3, 8, 32};
  if (statement.strides && has_x && draw.chance(20)) c.stride = c.cols + draw.pick(kGaps);
  if (c.rows > 0 && !is_cast && draw.below(100) < static_cast<std::uint64_t>(statement.experts)) draw_experts(draw, c);
  static constexpr std::uint8_t kPads[] = {0, 127, 254, 255, 90};
  c.pad = draw.pick(kPads);
  if (draw.chance(25)) c.threads = static_cast<int>(draw.between(1, 4));
  // A row index: from more rows, as many, or fewer, which repeat. The interface has it for CUDA libraries.
  if (process.info().cuda && has_x && !is_cast && draw.chance(20)) {
    const std::int64_t sources[] = {1, c.rows + 7, c.rows, 2 * c.rows, c.rows / 2};
    c.gather = std::max<std::int64_t>(1, draw.pick(sources));
  }
  return c;
}

Case within_limits(Case c, const OperationInfo& limits) {
  const auto fit = [](std::int64_t extent, std::int64_t multiple, std::int64_t limit) {
    extent = (extent + multiple - 1) / multiple * multiple;
    return limit > 0 ? std::min(extent, limit / multiple * multiple) : extent;
  };
  const std::int64_t gap = std::max<std::int64_t>(0, c.stride - c.cols);
  c.rows = fit(c.rows, limits.rows_multiple, limits.max_rows);
  c.cols = fit(c.cols, limits.cols_multiple, limits.max_cols);
  fit_route(c);
  if (c.stride != 0) c.stride = c.cols + gap;
  fit_experts(c);
  fit_plants(c);
  return c;
}

bool is_within_limits(const Case& c, const OperationInfo& limits) {
  return c.rows % limits.rows_multiple == 0 && c.cols % limits.cols_multiple == 0 &&
         (limits.max_rows <= 0 || c.rows <= limits.max_rows) && (limits.max_cols <= 0 || c.cols <= limits.max_cols);
}

namespace {

// 1, then the next multiple below of every power of two, the largest power first: whatever the threshold from which on
// a case fails, it is found in a logarithmic number of steps.
std::vector<std::int64_t> smaller_extents(std::int64_t extent) {
  std::vector<std::int64_t> smaller;
  if (extent > 1) smaller.push_back(1);
  // What fails at a remainder, and not at the multiples between: half and a quarter of the multiples away. Large cases
  // take too long to try that as well.
  const std::int64_t half = extent < 3 || extent > kMostElements
                                ? 0
                                : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(extent - 1)) / 2);
  for (const std::int64_t by : {half * 2, half}) {
    if (by > 0 && extent - by > 1) smaller.push_back(extent - by);
  }
  for (int k = 62; k >= 0; --k) {
    const std::int64_t below = extent < 1 ? 0 : (extent - 1) >> k << k;
    if (below > 1 && std::find(smaller.begin(), smaller.end(), below) == smaller.end()) smaller.push_back(below);
  }
  return smaller;
}

}  // namespace

std::vector<Case> simpler_cases(const Case& c, const Finding& finding) {
  if (is_route(c.variant.operation)) return simpler_routes(c, finding);
  std::vector<Case> simpler;
  const auto try_case = [&](Case candidate) {
    fit_plants(candidate);
    fit_experts(candidate);
    if (candidate.stride != 0) candidate.stride = candidate.cols + (c.stride - c.cols);
    if (candidate != c) simpler.push_back(std::move(candidate));
  };
  const auto with = [&](auto change) {
    Case candidate = c;
    change(candidate);
    try_case(std::move(candidate));
  };
  if (c.data != Data::zeros && !finding.culprits.empty()) {
    with([&](Case& n) {  // the culprits alone, moved to the first places
      n.data = Data::zeros, n.plants.clear(), n.experts.clear(), n.stride = 0, n.threads = 0, n.gather = 0;
      for (const Plant& p : finding.culprits) {
        const bool seen =
            std::any_of(n.plants.begin(), n.plants.end(), [&](const Plant& q) { return q.bits == p.bits; });
        if (!seen) n.plants.push_back({0, static_cast<std::int64_t>(n.plants.size()), p.bits});
      }
      if (n.variant.block.cols == 1) {
        for (Plant& p : n.plants) std::swap(p.row, p.col);
      }
      n.rows =
          std::min<std::int64_t>(n.rows, n.variant.block.cols == 1 ? static_cast<std::int64_t>(n.plants.size()) : 1);
      n.cols =
          std::min<std::int64_t>(n.cols, n.variant.block.cols == 1 ? 1 : static_cast<std::int64_t>(n.plants.size()));
    });
    with([&](Case& n) { n.data = Data::zeros, n.plants = finding.culprits; });
  }
  const bool product = is_matmul(c.variant.operation);
  if (product) {
    if (c.experts.size() > 2) with([](Case& n) { n.experts = {0, experts_end(n)}; });
    for (const std::int64_t depth : {c.depth / 256 * 128, c.depth / 2, std::int64_t{128}, std::int64_t{32}}) {
      if (depth > 0 && depth < c.depth) with([&](Case& n) { n.depth = depth; });
    }
    for (const std::int64_t depth : smaller_extents(c.depth)) with([&](Case& n) { n.depth = depth; });
    if (c.adds) with([](Case& n) { n.adds = false; });
    if (c.alpha != 1) with([](Case& n) { n.alpha = 1; });
  }
  if (!c.experts.empty()) {
    if (!product) with([](Case& n) { n.experts.clear(); });
    const std::int64_t whole = experts_end(c);
    for (const std::int64_t end : {std::int64_t{0}, std::int64_t{1}, whole / 2, whole / 256 * 128}) {
      if (end <= whole && c.experts.size() > 3) with([&](Case& n) { n.experts = {0, end, experts_end(n)}; });
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
  if (c.pad != 0) with([](Case& n) { n.pad = 0; });
  if (c.seed > 1) with([](Case& n) { n.seed = 1; });
  return simpler;
}

}  // namespace mxcheck
