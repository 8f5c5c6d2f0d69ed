// Steps of a layer that promise no bits: outputs in their intervals (any_order), errors no larger than the reference's
// (as_accurate_as:exact).
//
// Errors of aggregate are parts of sum |weight * y|, as those of products are. Of each case up to 16 outputs of those
// that differ from the reference's are compared, drawn so that no two have a column, or a row of Y, in common: no
// element of Y and no weight is of two of them, so that their errors are independent.

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numerics/format/codec.h"
#include "properties/core/claims.h"
#include "properties/core/rng.h"
#include "properties/operations/layer/operation.h"
#include "properties/operations/layer/problem.h"
#include "reference/layer/any_order.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostCompared = 16;  // outputs of a case

AggregatedRows added_rows(const AggregateProblem& p) { return {p.y, layer_case(p.c).y_rows, p.c.cols, p.weights}; }
TokenSlots added_slots(const AggregateProblem& p) { return {p.slots.token_offsets, p.slots.token_rows}; }

std::optional<Finding> adds_its_rows(CheckContext& context, const Case& c) {
  const auto ranges = [](const Problem& of, std::size_t, std::span<const std::uint8_t> wanted) {
    const auto& p = static_cast<const AggregateProblem&>(of);
    return aggregate_ranges(added_rows(p), added_slots(p), wanted);
  };
  return lies_within(context, c, ranges, " is outside of what any order of its sums can give");
}

// Places that are not 0, in an order that the case draws.
std::vector<std::size_t> drawn_places(const Case& c, const std::vector<std::uint8_t>& differs) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i] != 0) places.push_back(i);
  }
  Draw draw(derived_seed(c.seed, "outputs whose errors are compared"));
  for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[draw.below(i)]);
  return places;
}

// Outputs among the places that share neither a column nor a row of Y.
std::vector<std::size_t> with_rows_apart(const AggregateProblem& p, const std::vector<std::size_t>& places) {
  std::set<std::int64_t> cols;
  std::set<std::int32_t> rows;
  std::vector<std::size_t> taken;
  for (const std::size_t at : places) {
    if (taken.size() == kMostCompared) break;
    const std::int64_t token = static_cast<std::int64_t>(at) / p.c.cols, col = static_cast<std::int64_t>(at) % p.c.cols;
    const auto first = p.slots.token_rows.begin();
    const auto begin = first + p.slots.token_offsets[static_cast<std::size_t>(token)];
    const auto end = first + p.slots.token_offsets[static_cast<std::size_t>(token) + 1];
    if (cols.contains(col) || std::any_of(begin, end, [&](std::int32_t row) { return rows.contains(row); })) continue;
    cols.insert(col), taken.push_back(at);
    std::copy_if(begin, end, std::inserter(rows, rows.end()), [](std::int32_t row) { return row >= 0; });
  }
  return taken;
}

std::optional<Finding> compares_errors_of_sums(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const AggregateProblem&>(*posed.problem);
  const CallOutputs got = run_problem(context, p, kPoisons[c.seed & 1]);
  if (!got.usable()) return propagate(context, got);
  auto* const tally = dynamic_cast<ErrorTally*>(context.tally.get());
  const Bytes& own = posed.answer[0].bytes;
  if (own.empty() || tally == nullptr) return std::nullopt;
  const std::vector<std::size_t> places = drawn_places(c, differing(got.outputs[0], own, Format::bf16));
  if (places.empty()) tally->add(c, {}, 0, 0, 0);
  for (const std::size_t at : with_rows_apart(p, places)) {
    const auto place = static_cast<std::int64_t>(at);
    tally->add(c, {}, exact_aggregate(added_rows(p), added_slots(p), place / c.cols, place % c.cols),
               decode(Format::bf16, word_at(got.outputs[0], at, Format::bf16)),
               decode(Format::bf16, word_at(own, at, Format::bf16)));
  }
  return std::nullopt;
}

// Tokens of many slots: outputs in BF16 show of some ten thousand sums one that was added in another order. Each
// variant has seeds of its own.
std::vector<Case> many_sums_of_rows(std::span<const Variant> variants, Suite suite) {
  constexpr std::array kKinds{Data::normal, Data::normal, Data::boundaries, Data::normal};
  const std::size_t each = (suite == Suite::quick ? 1 : suite == Suite::full ? 4 : 16) * 32;
  std::vector<Case> cases;
  for (const Variant& v : variants) {
    for (std::size_t i = 0; i < each; ++i) {
      cases.push_back(step_corner(v, 128, 256, kKinds[i % kKinds.size()], derived_seed(i, to_text(v)) >> 16));
      layer_case(cases.back()).y_rows = 128 * 16, layer_case(cases.back()).most = i % 2 == 0 ? 8 : 64;
    }
  }
  return cases;
}

// The statements of one operation, with the domain of the one about its bits.
Statement claim_statement(const Statement& equality, bool (*is_it)(const Variant&), std::string_view name,
                          std::string_view sentence) {
  Statement s = equality;
  s.name = name, s.sentence = sentence, s.source = "reference/layer/any_order.h";
  s.applies = [is_it](const Variant& v, std::span<const Variant>) { return is_it(v) && !promises_bits(v); };
  s.repeats_bits = false, s.recorded = false;
  return s;
}
Statement accuracy_statement_of(Statement s, bool (*is_it)(const Variant&), std::string_view output,
                                std::string_view measure) {
  s.source = "properties/core/claims.h; numerics/measure/paired_errors.h";
  s.applies = [is_it](const Variant& v, std::span<const Variant>) {
    return is_it(v) && claim_of(v.operation) == kAsAccurateAsExact;
  };
  // Elements that are alike wherever they stand: of structured sums some orders are better than others.
  s.data = {Data::normal, Data::normal, Data::boundaries, Data::sparse};
  s.corners = {};  // their seeds are those of other variants too
  s.covers_pairs = false;
  s.tally = [output, measure] { return std::make_shared<ErrorTally>(std::string(output), std::string(measure)); };
  return s;
}

}  // namespace

std::vector<Statement> step_claim_statements(const std::vector<Statement>& equality) {
  const auto of = [&](std::string_view name) {
    return *std::find_if(equality.begin(), equality.end(), [&](const Statement& s) { return s.name == name; });
  };
  const Statement aggregates = of("aggregate_equals_the_reference");
  std::vector<Statement> s{
      claim_statement(aggregates, is_aggregate, "aggregate_is_a_sum_of_its_products",
                      "where no order of sums is promised, every output lies in the interval that holds the result of "
                      "every order of a token's rows"),
      claim_statement(
          aggregates, is_aggregate, "aggregate_is_as_accurate_as_the_reference",
          "where the reference's accuracy is promised, errors against the exact sum are no larger than its"),
  };
  s[0].check = adds_its_rows;
  s[1] = accuracy_statement_of(s[1], is_aggregate, "o", "the sum of magnitudes");
  s[1].check = compares_errors_of_sums, s[1].shared_corners = many_sums_of_rows;
  return s;
}

}  // namespace mxcheck
