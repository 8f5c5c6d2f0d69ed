// Token choice that promises no bits: experts that a right kernel may choose, and weights in their intervals
// (any_order), errors of weights no larger than the reference's (as_accurate_as:exact).
//
// Errors are parts of the exact weight. Of each case up to 16 tokens are compared that have the reference's experts and
// not all of its weights, one weight of each that differs, drawn: logits of tokens are independent, and so are errors.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "properties/core/claims.h"
#include "properties/core/rng.h"
#include "properties/operations/router/operation.h"
#include "properties/operations/router/problem.h"
#include "reference/router/any_order.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostTokensCompared = 16;

// A call's routes, token by token, against the reference's.
class ClaimedRoutes {
 public:
  ClaimedRoutes(const ChoiceProblem& p, const std::vector<ExpectedTensor>& answer, const std::vector<Bytes>& outputs)
      : p_(p), width_(static_cast<std::size_t>(route_case(p.c).top_k)), right(outputs) {
    for (const ExpectedTensor& t : answer) own_.push_back(t.bytes);
  }

  [[nodiscard]] bool differs(std::int64_t token, std::size_t output) const {
    const std::size_t at = place(token);
    return std::memcmp(own_[output].data() + at, right[output].data() + at, width_ * 4) != 0;
  }
  [[nodiscard]] JudgedRoute judged(std::int64_t token) const {
    std::vector<float> logits(static_cast<std::size_t>(p_.c.cols));
    p_.input.view().read_row(token, logits);
    return judge_route(p_.router(), logits, experts(right, token), experts(own_, token));
  }
  // Puts a right answer in place of a wrong one; true if it was wrong.
  bool correct(std::int64_t token) {
    const JudgedRoute route = judged(token);
    if (!route.experts_are_right) {
      for (std::size_t n = 0; n < 2; ++n)
        std::memcpy(right[n].data() + place(token), own_[n].data() + place(token), width_ * 4);
      return true;
    }
    bool is_wrong = false;
    for (std::size_t i = 0; i < width_; ++i) {
      if (route.weights[i].holds(Format::fp32, word(right, token, i))) continue;
      const auto exact = static_cast<float>((route.weights[i].low + route.weights[i].high) / 2);
      std::memcpy(right[1].data() + place(token) + 4 * i, &exact, sizeof(exact));
      is_wrong = true;
    }
    return is_wrong;
  }
  [[nodiscard]] std::uint32_t own(std::int64_t token, std::size_t i) const { return word(own_, token, i); }
  [[nodiscard]] std::uint32_t observed(std::int64_t token, std::size_t i) const { return word(right, token, i); }

 private:
  [[nodiscard]] std::size_t place(std::int64_t token) const { return static_cast<std::size_t>(token) * width_ * 4; }
  [[nodiscard]] std::vector<std::int32_t> experts(const std::vector<Bytes>& of, std::int64_t token) const {
    return values_in<std::int32_t>(std::span(of[0]).subspan(place(token), width_ * 4));
  }
  [[nodiscard]] std::uint32_t word(const std::vector<Bytes>& of, std::int64_t token, std::size_t i) const {
    return word_at(of[1], Format::fp32, static_cast<std::size_t>(token) * width_ + i);
  }

  const ChoiceProblem& p_;
  std::size_t width_;
  std::vector<Bytes> own_;

 public:
  std::vector<Bytes> right;  // the call's outputs, corrected
};

std::optional<Finding> routes_within(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const ChoiceProblem&>(*posed.problem);
  for (const std::uint8_t poison : kPoisons) {
    if (c.elements() > 100'000 && poison != kPoisons[c.seed & 1]) continue;
    const CallOutputs got = run_problem(context, p, poison);
    if (!got.usable()) return propagate(context, got);
    ClaimedRoutes routes(p, posed.answer, got.outputs);
    bool is_wrong = false;
    for (std::int64_t token = 0; token < c.rows; ++token) {
      if (routes.differs(token, 0) || routes.differs(token, 1)) is_wrong |= routes.correct(token);
    }
    if (!is_wrong) continue;
    for (std::size_t n = 0; n < 2; ++n) {
      auto finding = differ(p.outputs[n], routes.right[n], got.outputs[n],
                            n == 0 ? "experts are those of no right scores and order"
                                   : "weights are outside of what any right exp and order of sums gives");
      if (!finding) continue;
      p.explain(n, *finding);
      if (context.thorough) tell_matches(p, posed.answer, got.outputs, *finding, {poison, context.causes});
      return finding;
    }
  }
  return std::nullopt;
}

std::optional<Finding> compares_errors_of_weights(CheckContext& context, const Case& c) {
  const ProblemAndAnswer posed = problem_and_answer_of(context, c);
  const auto& p = static_cast<const ChoiceProblem&>(*posed.problem);
  const CallOutputs got = run_problem(context, p, kPoisons[c.seed & 1]);
  if (!got.usable()) return propagate(context, got);
  auto* const tally = dynamic_cast<ErrorTally*>(context.tally.get());
  if (tally == nullptr || posed.answer[1].bytes.empty()) return std::nullopt;
  const ClaimedRoutes routes(p, posed.answer, got.outputs);
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < c.rows; ++t) {
    if (!routes.differs(t, 0) && routes.differs(t, 1)) tokens.push_back(t);
  }
  if (tokens.empty()) tally->add(c, {}, 0, 0, 0);
  Draw draw(derived_seed(c.seed, "weights whose errors are compared"));
  for (std::size_t n = 0; n < kMostTokensCompared && !tokens.empty(); ++n) {
    std::swap(tokens[draw.below(tokens.size())], tokens.back());
    const std::int64_t t = tokens.back();
    tokens.pop_back();
    const JudgedRoute judged = routes.judged(t);
    std::vector<std::size_t> slots;
    for (std::size_t i = 0; i < judged.exact.size(); ++i) {
      if (routes.own(t, i) != routes.observed(t, i)) slots.push_back(i);
    }
    const std::size_t i = slots[draw.below(slots.size())];
    tally->add(c, {}, judged.exact[i], decode(Format::fp32, routes.observed(t, i)),
               decode(Format::fp32, routes.own(t, i)));
  }
  return std::nullopt;
}

// Tokens of every variant, with seeds of its own.
std::vector<Case> many_tokens(std::span<const Variant> variants, Suite suite) {
  const int each = suite == Suite::quick ? 2 : suite == Suite::full ? 8 : 32;
  std::vector<Case> cases;
  for (const Variant& v : variants) {
    for (int i = 0; i < each; ++i) {
      cases.push_back(route_corner(v, 64, i % 2 == 0 ? 64 : 256, i % 2 == 0 ? 4 : 8, Data::normal,
                                   derived_seed(static_cast<std::uint64_t>(i), to_text(v)) >> 16));
    }
  }
  return cases;
}

}  // namespace

std::vector<Statement> route_claim_statements(const Statement& equality) {
  const auto is_claimed = [](const Variant& v) {
    return is_operation(v.operation, kRoute.name) && !promises_bits(v) &&
           has_weight_ranges(router_variant_named(route_of(v).router));
  };
  std::vector<Statement> s(2, equality);
  s[0].name = "route_is_within_its_intervals";
  s[0].sentence =
      "where no bits are promised, the experts of every token are those of right scores, and their weights lie in the "
      "intervals that hold every exp as good as CUDA's intrinsics and every order of sums";
  s[0].source = "reference/router/any_order.h";
  s[0].applies = [is_claimed](const Variant& v, std::span<const Variant>) { return is_claimed(v); };
  s[0].check = routes_within;
  s[0].repeats_bits = false, s[0].recorded = false;
  s[1] = s[0];
  s[1].name = "route_is_as_accurate_as_the_reference";
  s[1].sentence = "where the reference's accuracy is promised, errors of weights are no larger than its";
  s[1].source = "properties/core/claims.h; numerics/measure/paired_errors.h";
  s[1].applies = [is_claimed](const Variant& v, std::span<const Variant>) {
    return is_claimed(v) && claim_of(v.operation) == kAsAccurateAsExact;
  };
  s[1].check = compares_errors_of_weights;
  s[1].data = {Data::normal};
  s[1].corners = {}, s[1].shared_corners = many_tokens;
  s[1].covers_pairs = false, s[1].cases_per_variant = 0;
  s[1].tally = [] { return std::make_shared<ErrorTally>("weights", "the exact weight"); };
  return s;
}

}  // namespace mxcheck
