#include "reference/layer/dispatch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/layer/aggregate.h"

namespace mxcheck {
namespace {

void check_ends(std::span<const std::int64_t> offsets, std::int64_t end, const std::string& name) {
  if (offsets.empty()) throw Error(ErrorKind::usage, name + " is empty: it has one value more than it has groups");
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::int64_t least = i == 0 ? 0 : offsets[i - 1];
    const std::int64_t most = i == 0 ? 0 : end;
    const bool is_last = i + 1 == offsets.size();
    if (offsets[i] >= least && offsets[i] <= most && (!is_last || offsets[i] == end)) continue;
    throw Error(ErrorKind::input, name + "[" + std::to_string(i) + "] is " + std::to_string(offsets[i]) +
                                      ": offsets ascend from 0 to " + std::to_string(end));
  }
}

void check_range(std::span<const std::int32_t> values, std::int64_t low, std::int64_t end, const std::string& name) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= low && values[i] < end) continue;
    throw Error(ErrorKind::input, name + "[" + std::to_string(i) + "] is " + std::to_string(values[i]) + ": must be " +
                                      std::to_string(low) + " to " + std::to_string(end - 1));
  }
}

void check_routes(const RankedRoutes& r) {
  if (r.ranks() < 1 || r.experts() < 1) throw Error(ErrorKind::usage, "there is at least one rank and one expert");
  if (r.capacity < 0) throw Error(ErrorKind::usage, "capacity is negative: must be 0 or more");
  check_ends(r.rank_tokens, std::max<std::int64_t>(0, std::ssize(r.token_offsets) - 1), "rank_tokens");
  check_ends(r.token_offsets, std::ssize(r.slot_experts), "token_offsets");
  check_range(r.expert_rank, 0, r.ranks(), "expert_rank");
  check_range(r.slot_experts, -1, r.experts(), "slot_experts");
}

// Experts by rank, those of a rank in ascending order.
std::vector<std::size_t> placed_experts(const RankedRoutes& r) {
  std::vector<std::size_t> order(r.expert_rank.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return r.expert_rank[a] < r.expert_rank[b]; });
  return order;
}

// The slots that each expert keeps, ascending.
std::vector<std::vector<std::int64_t>> kept_slots(const RankedRoutes& r) {
  std::vector<std::vector<std::int64_t>> kept(r.expert_rank.size());
  for (std::int64_t slot = 0; slot < std::ssize(r.slot_experts); ++slot) {
    const std::int32_t expert = r.slot_experts[static_cast<std::size_t>(slot)];
    if (expert < 0) continue;
    std::vector<std::int64_t>& of_expert = kept[static_cast<std::size_t>(expert)];
    if (r.capacity == 0 || std::ssize(of_expert) < r.capacity) of_expert.push_back(slot);
  }
  return kept;
}

// Before memory is taken for them: a row's number is an int32.
void check_rows(const RankedRoutes& r, const std::vector<std::vector<std::int64_t>>& kept) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t rows = 0;
  for (const std::vector<std::int64_t>& of_expert : kept) rows += std::ssize(of_expert);
  if (rows > kMost || r.capacity > kMost / r.experts())
    throw Error(ErrorKind::usage, "there are more than 2^31 - 1 rows: use a smaller capacity");
}

// The group that a value of ascending ends falls into.
std::int64_t group_of(std::span<const std::int64_t> offsets, std::int64_t value) {
  return std::upper_bound(offsets.begin(), offsets.end(), value) - offsets.begin() - 1;
}

}  // namespace

DispatchPlan plan_dispatch(const RankedRoutes& routes) {
  check_routes(routes);
  const std::vector<std::vector<std::int64_t>> kept = kept_slots(routes);
  check_rows(routes, kept);
  DispatchPlan plan;
  plan.first_row.resize(kept.size());
  plan.counts.resize(static_cast<std::size_t>(checked_product(routes.ranks(), routes.experts(), "counts")));
  plan.slot_rows.assign(routes.slot_experts.size(), -1);
  for (const std::size_t expert : placed_experts(routes)) {
    const std::int64_t first = plan.rows();
    const std::int64_t rows = routes.capacity == 0 ? std::ssize(kept[expert]) : routes.capacity;
    plan.first_row[expert] = first;
    for (const std::int64_t slot : kept[expert]) {
      const std::int64_t token = group_of(routes.token_offsets, slot);
      plan.slot_rows[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(plan.rows());
      plan.row_token.push_back(static_cast<std::int32_t>(token));
      const std::int64_t source = group_of(routes.rank_tokens, token);
      ++plan.counts[static_cast<std::size_t>(source) * kept.size() + expert];
    }
    plan.row_token.resize(static_cast<std::size_t>(first + rows), -1);
  }
  return plan;
}

std::vector<std::byte> dispatched(const DispatchPlan& plan, std::span<const std::byte> x, std::int64_t row_bytes) {
  std::vector<std::byte> rows(static_cast<std::size_t>(checked_product(plan.rows(), row_bytes, "the rows")));
  for (std::int64_t row = 0; row < plan.rows(); ++row) {
    const std::int64_t token = plan.row_token[static_cast<std::size_t>(row)];
    if (token < 0) continue;
    if ((token + 1) * row_bytes > std::ssize(x))
      throw Error(ErrorKind::usage, "x has fewer rows than there are tokens");
    std::copy_n(x.begin() + token * row_bytes, row_bytes, rows.begin() + row * row_bytes);
  }
  return rows;
}

std::vector<float> weights_of_rows(const DispatchPlan& plan, std::span<const float> weights) {
  if (weights.empty()) return {};
  if (weights.size() != plan.slot_rows.size()) throw Error(ErrorKind::usage, "weights are as many as there are slots");
  std::vector<float> of_rows(plan.row_token.size(), 1);
  for (std::size_t slot = 0; slot < weights.size(); ++slot) {
    if (plan.slot_rows[slot] >= 0) of_rows[static_cast<std::size_t>(plan.slot_rows[slot])] = weights[slot];
  }
  return of_rows;
}

std::vector<std::uint16_t> combine(const DispatchPlan& plan, const RankedRoutes& routes, const CombinedRows& from,
                                   int threads) {
  const std::vector<float> weights = weights_of_rows(plan, from.weights);
  return aggregate({from.y, plan.rows(), from.cols, weights}, {routes.token_offsets, plan.slot_rows}, threads);
}

}  // namespace mxcheck
