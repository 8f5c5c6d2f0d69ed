// The rules by name, and what can be said of them before there are routes.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
namespace {

constexpr std::array kRules{
    TokenRoundingRuleSpec{TokenRoundingRule::none, "none", "token choice as it is"},
    TokenRoundingRuleSpec{TokenRoundingRule::nr_f, "nr-f", "counts to the nearest multiple of the tile, a half down"},
    TokenRoundingRuleSpec{TokenRoundingRule::sr_f, "sr-f", "up with probability (f - down) / tile"},
    TokenRoundingRuleSpec{TokenRoundingRule::nr_s, "nr-s", "nearest by the scores lost and gained"},
    TokenRoundingRuleSpec{TokenRoundingRule::balance_f, "balance-f",
                          "the residual of all experts so far within half a tile"},
    TokenRoundingRuleSpec{TokenRoundingRule::up, "up", "counts up to a multiple of the tile"},
    TokenRoundingRuleSpec{TokenRoundingRule::down, "down", "counts down to a multiple of the tile"},
    TokenRoundingRuleSpec{TokenRoundingRule::nr_even, "nr-even", "nearest, a half to the even multiple"},
    TokenRoundingRuleSpec{TokenRoundingRule::expert_choice, "expert-choice", "each expert its `capacity` best tokens"},
    TokenRoundingRuleSpec{TokenRoundingRule::capacity_order, "capacity-order",
                          "the first `capacity` tokens of each expert"},
    TokenRoundingRuleSpec{TokenRoundingRule::capacity_score, "capacity-score",
                          "the best `capacity` tokens of each expert"}};

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

bool has_capacity(TokenRoundingRule rule) {
  return rule == TokenRoundingRule::expert_choice || rule == TokenRoundingRule::capacity_order ||
         rule == TokenRoundingRule::capacity_score;
}

void check_rows(std::int64_t rows, const std::string& what) {
  if (rows > kMostRows) refuse(what + ": " + std::to_string(rows) + " rows are more than int32 counts");
}

}  // namespace

std::span<const TokenRoundingRuleSpec> all_token_rounding_rules() { return kRules; }

TokenRoundingRule token_rounding_rule_named(std::string_view name) {
  std::string known;
  for (const TokenRoundingRuleSpec& r : kRules) {
    if (r.name == name) return r.rule;
    known += (known.empty() ? "" : ", ") + std::string(r.name);
  }
  refuse("unknown rule '" + std::string(name) + "'; known are " + known);
}

bool rounds_to_tiles(TokenRoundingRule rule) { return rule != TokenRoundingRule::none && !has_capacity(rule); }

std::int64_t token_rounding_capacity(const Router& router, const TokenRounding& token_rounding, std::int64_t tokens,
                                     std::int64_t experts) {
  if (tokens < 0 || experts < 0 || router.top_k < 1 || router.top_k > experts) {
    refuse("top_k " + std::to_string(router.top_k) + " of " + std::to_string(tokens) + " x " + std::to_string(experts) +
           " logits: must be in [1, experts]");
  }
  if (rounds_to_tiles(token_rounding.rule) && token_rounding.tile < 1) {
    refuse("tile " + std::to_string(token_rounding.tile) + ": must be 1 or more");
  }
  if (has_capacity(token_rounding.rule) && token_rounding.capacity < 0) {
    refuse("capacity " + std::to_string(token_rounding.capacity) + ": must be 0 or more");
  }
  check_rows(tokens, "tokens");
  const std::int64_t routes = checked_product(tokens, router.top_k, "routes");
  check_rows(routes, "routes");
  std::int64_t rows = routes;
  if (token_rounding.rule == TokenRoundingRule::expert_choice) {
    rows = checked_product(experts, std::min(token_rounding.capacity, tokens), "rows of experts");
  }
  if (rounds_to_tiles(token_rounding.rule)) {
    // Beyond tokens the padding makes no difference to the smaller of the two, and so cannot overflow.
    const std::int64_t padding = checked_product(experts, std::min(token_rounding.tile - 1, tokens), "rows admitted");
    rows = std::min(checked_product(tokens, experts, "pairs"), checked_sum(routes, padding, "rows"));
  }
  check_rows(rows, "capacity");
  return rows;
}

std::int64_t capacity_from_factor(TokenRoundingRule rule, double factor, std::int64_t tokens, std::int64_t top_k,
                                  std::int64_t experts) {
  if (!has_capacity(rule)) refuse("a capacity factor: only expert-choice and the capacity rules take one");
  if (tokens < 0 || top_k < 0 || experts < 1 || !std::isfinite(factor) || factor < 0) {
    refuse("capacity of factor " + std::to_string(factor) + ", " + std::to_string(tokens) + " tokens, top_k " +
           std::to_string(top_k) + ", " + std::to_string(experts) +
           " experts: the factor must be finite and 0 or more, sizes 0 or more, experts 1 or more");
  }
  const auto too_large = [] { refuse("capacity: beyond 2^63 - 1; use a smaller factor"); };
  // factor = m * 2^exponent with an integer m below 2^53, so that m * tokens * top_k is below 2^116. Dividing first by
  // experts and then by the power of two rounds as one division does: floors of floors, ceilings of ceilings.
  int exponent = 0;
  const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(factor, &exponent), 53));
  exponent -= 53;
  using Wide = unsigned __int128;
  Wide value = static_cast<Wide>(m) * static_cast<std::uint64_t>(checked_product(tokens, top_k, "routes"));
  if (value == 0) return 0;
  const bool up = rule == TokenRoundingRule::expert_choice;
  const auto divide = [up](Wide n, Wide by) { return n / by + (up && n % by != 0 ? 1U : 0U); };
  if (exponent > 0) {
    // A product of 2^128 or more is beyond 2^65 experts.
    if (exponent >= 128 || value >> (128 - exponent) != 0) too_large();
    value <<= exponent;
  }
  value = divide(value, static_cast<Wide>(experts));
  if (exponent < 0) value = exponent > -128 ? divide(value, Wide{1} << -exponent) : up ? 1U : 0U;
  if (value > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) too_large();
  return static_cast<std::int64_t>(value);
}

}  // namespace mxcheck
