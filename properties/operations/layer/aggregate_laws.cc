// What holds of aggregation whatever the reference says: the candidate's outputs are held against each other.

#include <algorithm>
#include <limits>
#include <utility>

#include "properties/operations/layer/problem.h"
#include "properties/operations/layer/statements.h"

namespace mxcheck {
namespace {

// The outputs of both are the same.
std::optional<Finding> same(CheckContext& context, const AggregateProblem& one, const AggregateProblem& other,
                            const char* what) {
  const Got a = run_problem(context, one);
  if (!a.usable()) return pass_on(context, a);
  const Got b = run_problem(context, other);
  if (!b.usable()) return pass_on(context, b);
  return differ(one.outputs[0], a.outputs[0], b.outputs[0], what);
}

std::optional<Finding> tokens_permuted(CheckContext& context, const Case& c) {
  if (c.rows < 2) return nothing_claimed(context);
  const AggregateProblem p(c);
  const Got before = run_problem(context, p);
  if (!before.usable()) return pass_on(context, before);
  const std::int64_t by = 1 + c.rows / 3;
  AggregateProblem moved = p;
  moved.slots = {{0}, {}};
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const auto from = static_cast<std::size_t>((t + by) % c.rows);
    const auto first = p.slots.token_rows.begin();
    moved.slots.token_rows.insert(moved.slots.token_rows.end(), first + p.slots.token_offsets[from],
                                  first + p.slots.token_offsets[from + 1]);
    moved.slots.token_offsets.push_back(std::ssize(moved.slots.token_rows));
  }
  const Got after = run_problem(context, moved);
  if (!after.usable()) return pass_on(context, after);
  return differ(p.outputs[0], rotated(before.outputs[0], c.rows, by), after.outputs[0],
                "o of tokens that moved is another");
}

std::optional<Finding> without_dropped(CheckContext& context, const Case& c) {
  const AggregateProblem p(c);
  AggregateProblem less = p;
  less.slots = {{0}, {}};
  for (std::size_t t = 0; t + 1 < p.slots.token_offsets.size(); ++t) {
    for (std::int64_t slot = p.slots.token_offsets[t]; slot < p.slots.token_offsets[t + 1]; ++slot) {
      const std::int32_t row = p.slots.token_rows[static_cast<std::size_t>(slot)];
      if (row >= 0) less.slots.token_rows.push_back(row);
    }
    less.slots.token_offsets.push_back(std::ssize(less.slots.token_rows));
  }
  if (less.slots.token_rows.size() == p.slots.token_rows.size()) return nothing_claimed(context);
  return same(context, p, less, "o is another where slots that were dropped are left out");
}

// Rows of y that no slot names, and their weights, made NaN.
std::optional<Finding> unused_rows(CheckContext& context, const Case& c) {
  const AggregateProblem p(c);
  std::vector<bool> used(static_cast<std::size_t>(layer_case(c).y_rows));
  for (const std::int32_t row : p.slots.token_rows) {
    if (row >= 0) used[static_cast<std::size_t>(row)] = true;
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return nothing_claimed(context);
  AggregateProblem other = p;
  for (std::size_t row = 0; row < used.size(); ++row) {
    if (used[row]) continue;
    const auto first = other.y.begin() + static_cast<std::ptrdiff_t>(row) * c.cols;
    std::fill(first, first + c.cols, std::uint16_t{0x7FC0});
    if (!other.weights.empty()) other.weights[row] = std::numeric_limits<float>::quiet_NaN();
  }
  return same(context, p, other, "o is another where rows of y that no token has hold NaN");
}

std::optional<Finding> weights_of_one(CheckContext& context, const Case& c) {
  AggregateProblem weighted(c);
  std::fill(weighted.weights.begin(), weighted.weights.end(), 1.0F);
  AggregateProblem plain = weighted;
  plain.weights.clear();
  layer_of(plain.c.variant).weighted = false;
  return same(context, plain, weighted, "o with weights of 1 is not that without weights");
}

bool aggregates(const Variant& v, std::span<const Variant>) { return is_aggregate(v); }
bool has_both(const Variant& v, std::span<const Variant> all) {
  if (!is_aggregate(v) || !layer_of(v).weighted) return false;
  Variant plain = v;
  layer_of(plain).weighted = false;
  return offers(all, plain);
}

}  // namespace

std::vector<Statement> aggregate_law_statements() {
  std::vector<Statement> s{
      step_law("permuting_tokens_permutes_o", "o of a token does not depend on where it stands among others",
               aggregates, tokens_permuted),
      step_law("a_dropped_slot_is_as_one_that_is_absent", "slots of -1 add nothing and may as well be left out",
               aggregates, without_dropped),
      step_law("rows_that_no_token_has_change_nothing",
               "what y and weights hold in rows that no slot names is not read", aggregates, unused_rows),
      step_law("weights_of_one_add_up_as_none", "o with weights of 1 is o without weights", has_both, weights_of_one),
  };
  for (Statement& one : s) one.experts = 0;
  return s;
}

}  // namespace mxcheck
