// The rules by name, and the checks of them that need no routes.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "numerics/error.h"
#include "numerics/names.h"
#include "reference/common/checked_size.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
namespace {

using enum TokenRoundingRule;
constexpr std::array<TokenRoundingRuleSpec, 11> kRules{
    {{none, "none", false, false, "token choice as it is"},
     {nr_f, "nr-f", true, false, "counts to the nearest multiple of the tile, a half down"},
     {sr_f, "sr-f", true, false, "up with probability (f - down) / tile"},
     {nr_s, "nr-s", true, false, "nearest by the scores lost and gained"},
     {balance_f, "balance-f", true, false, "the residual of all experts so far within half a tile"},
     {up, "up", true, false, "counts up to a multiple of the tile"},
     {down, "down", true, false, "counts down to a multiple of the tile"},
     {nr_even, "nr-even", true, false, "nearest, a half to the even multiple"},
     {expert_choice, "expert-choice", false, true, "each expert its `capacity` best tokens"},
     {capacity_order, "capacity-order", false, true, "the first `capacity` tokens of each expert"},
     {capacity_score, "capacity-score", false, true, "the best `capacity` tokens of each expert"}}};

const TokenRoundingRuleSpec& spec_of(TokenRoundingRule rule) {
  return *std::find_if(kRules.begin(), kRules.end(), [rule](const auto& r) { return r.rule == rule; });
}

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

void check_rows(std::int64_t rows, const std::string& what) {
  if (rows > kMostRows) refuse(what + ": " + std::to_string(rows) + " rows are more than int32 counts");
}

}  // namespace

std::span<const TokenRoundingRuleSpec> all_token_rounding_rules() { return kRules; }

TokenRoundingRule token_rounding_rule_named(std::string_view name) { return entry_named(kRules, "rule", name).rule; }

std::string_view to_text(TokenRoundingRule rule) { return spec_of(rule).name; }

bool rounds_to_tiles(TokenRoundingRule rule) { return spec_of(rule).rounds_to_tiles; }

bool takes_capacity(TokenRoundingRule rule) { return spec_of(rule).takes_capacity; }

std::int64_t token_rounding_capacity(const Router& router, const TokenRounding& token_rounding, std::int64_t tokens,
                                     std::int64_t experts) {
  if (tokens < 0 || experts < 0 || router.top_k < 1 || router.top_k > experts) {
    refuse("top_k " + std::to_string(router.top_k) + " of " + std::to_string(tokens) + " x " + std::to_string(experts) +
           " logits: must be in [1, experts]");
  }
  if (rounds_to_tiles(token_rounding.rule) && token_rounding.tile < 1) {
    refuse("tile " + std::to_string(token_rounding.tile) + ": must be 1 or more");
  }
  if (takes_capacity(token_rounding.rule) && token_rounding.capacity < 0) {
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
  if (!takes_capacity(rule)) refuse("a capacity factor: only expert-choice and the capacity rules take one");
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
  using Uint128 = unsigned __int128;
  Uint128 value = static_cast<Uint128>(m) * static_cast<std::uint64_t>(checked_product(tokens, top_k, "routes"));
  if (value == 0) return 0;
  const bool rounds_up = rule == TokenRoundingRule::expert_choice;
  const auto divide = [rounds_up](Uint128 n, Uint128 by) { return n / by + (rounds_up && n % by != 0 ? 1U : 0U); };
  if (exponent > 0) {
    // A product of 2^128 or more is beyond 2^65 experts.
    if (exponent >= 128 || value >> (128 - exponent) != 0) too_large();
    value <<= exponent;
  }
  value = divide(value, static_cast<Uint128>(experts));
  if (exponent < 0) value = exponent > -128 ? divide(value, Uint128{1} << -exponent) : rounds_up ? 1U : 0U;
  if (value > static_cast<Uint128>(std::numeric_limits<std::int64_t>::max())) too_large();
  return static_cast<std::int64_t>(value);
}

}  // namespace mxcheck
