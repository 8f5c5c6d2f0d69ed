// The rules by name, and the checks of them that need no routes.

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
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

using Uint128 = unsigned __int128;

// digits * 10^exponent.
struct Decimal {
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
};

[[noreturn]] void refuse_factor(std::string_view text, const char* why) {
  refuse("capacity factor '" + std::string(text) + "': " + why);
}

// The digits of a mantissa without the zeros on either side, and by how many places the point is moved.
Decimal parse_mantissa(std::string_view mantissa, std::string_view text) {
  constexpr std::size_t kMostDigits = 19;  // what 64 bits hold
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  std::string digits(mantissa.substr(0, point));
  if (point < mantissa.size()) digits += mantissa.substr(point + 1);
  const bool only_digits = digits.find_first_not_of("0123456789") == std::string::npos;
  if (digits.empty() || !only_digits) refuse_factor(text, "must be a decimal number, 0 or more, such as 1.25");
  Decimal decimal{0, -static_cast<std::int64_t>(mantissa.size() - std::min(point + 1, mantissa.size()))};
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return {0, 0};
  const std::size_t last = digits.find_last_not_of('0');
  decimal.exponent += static_cast<std::int64_t>(digits.size() - 1 - last);
  digits = digits.substr(first, last - first + 1);
  if (digits.size() > kMostDigits) refuse_factor(text, "has more than 19 significant digits");
  decimal.digits = *parse_number<std::uint64_t>(digits);
  return decimal;
}

Decimal parse_decimal(std::string_view text) {
  constexpr std::int64_t kMostExponent = 1'000'000'000;  // beyond it nothing changes, and sums of two are no overflow
  constexpr const char* kWhy = "must be a decimal number, 0 or more, such as 1.25";
  std::string_view rest = text;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  const std::size_t e = std::min(rest.find_first_of("eE"), rest.size());
  Decimal decimal = parse_mantissa(rest.substr(0, e), text);
  if (e == rest.size()) return decimal;
  std::string_view exponent = rest.substr(e + 1);
  const bool negative = exponent.starts_with('-');
  if (negative || exponent.starts_with('+')) exponent.remove_prefix(1);
  if (exponent.empty() || exponent.find_first_not_of("0123456789") != std::string_view::npos) refuse_factor(text, kWhy);
  const std::int64_t value = std::min(parse_number<std::int64_t>(exponent).value_or(kMostExponent), kMostExponent);
  decimal.exponent += negative ? -value : value;
  return decimal;
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

std::int64_t capacity_from_factor(TokenRoundingRule rule, std::string_view factor, std::int64_t tokens,
                                  std::int64_t top_k, std::int64_t experts) {
  if (!takes_capacity(rule)) refuse("a capacity factor: only expert-choice and the capacity rules take one");
  if (tokens < 0 || top_k < 0 || experts < 1) {
    refuse("capacity of " + std::to_string(tokens) + " tokens, top_k " + std::to_string(top_k) + ", " +
           std::to_string(experts) + " experts: sizes must be 0 or more, experts 1 or more");
  }
  const Decimal decimal = parse_decimal(factor);
  // Below 10^19 * 2^63, which is below 2^127.
  Uint128 value = Uint128{decimal.digits} * static_cast<std::uint64_t>(checked_product(tokens, top_k, "routes"));
  if (value == 0) return 0;
  const auto too_large = [] { refuse("capacity: beyond 2^63 - 1; use a smaller factor"); };
  const auto most = static_cast<Uint128>(std::numeric_limits<std::int64_t>::max());
  const bool rounds_up = rule == TokenRoundingRule::expert_choice;
  const auto divide = [rounds_up](Uint128 n, Uint128 by) { return n / by + (rounds_up && n % by != 0 ? 1U : 0U); };
  // What is beyond 2^126 is beyond 2^63 experts; the loop ends there.
  for (std::int64_t i = 0; i < decimal.exponent; ++i) {
    if (value > (Uint128{1} << 126) / 10) too_large();
    value *= 10;
  }
  // One division after the other rounds as one by their product does: floors of floors, ceilings of ceilings.
  value = divide(value, static_cast<Uint128>(experts));
  const Uint128 end = rounds_up ? 1 : 0;  // which no more divisions change
  for (std::int64_t i = decimal.exponent; i < 0 && value != end; ++i) value = divide(value, 10);
  if (value > most) too_large();
  return static_cast<std::int64_t>(value);
}

}  // namespace mxcheck
