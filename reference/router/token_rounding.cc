#include "reference/router/token_rounding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/router/metadata.h"
#include "reference/router/parts.h"

namespace mxcheck {
namespace {

using router_parts::TokenRanks;
using Tokens = std::vector<std::int32_t>;

// f tokens and the multiples of the tile around them; no more than tokens can fill.
std::vector<std::vector<float>> boundary_scores(const TokenRanks& ranks, std::span<const std::int32_t> chosen,
                                                std::int64_t tile, std::int64_t tokens, int threads) {
  std::vector<std::vector<float>> scores(chosen.size());
  const auto experts = static_cast<std::int64_t>(chosen.size());
  parallel_ranges(experts, experts * tokens, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      const std::int64_t f = chosen[static_cast<std::size_t>(e)];
      const std::int64_t down = f - f % tile;
      if (f == down || tile > tokens - down) continue;
      scores[static_cast<std::size_t>(e)] = ranks.scores_around_chosen(e, down, down + tile);
    }
  });
  return scores;
}

// The tokens that an expert keeps, ascending.
Tokens kept_tokens(TokenRoundingRule rule, const TokenRanks& ranks, std::int64_t expert, std::int64_t count) {
  if (rule == TokenRoundingRule::expert_choice) return ranks.first_by_score(expert, count);
  const std::span<const std::int32_t> chosen = ranks.chosen(expert);
  if (rule == TokenRoundingRule::capacity_order || std::cmp_equal(count, chosen.size())) {
    return {chosen.begin(), chosen.begin() + count};
  }
  return ranks.first(expert, count);
}

// visit(expert, row) for all rows in their order.
template <class Visit>
void for_each_row(const RoundedTokens& a, Visit visit) {
  for (std::int64_t e = 0; e < a.experts; ++e) {
    const auto i = static_cast<std::size_t>(e);
    for (std::int64_t row = a.offsets[i]; row < a.offsets[i + 1]; ++row) visit(e, static_cast<std::size_t>(row));
  }
}

// Rows by expert, without weights.
RoundedTokens rows_by_expert(const std::vector<Tokens>& kept, std::int64_t tokens, std::int64_t capacity) {
  RoundedTokens a;
  a.tokens = tokens;
  a.experts = static_cast<std::int64_t>(kept.size());
  resize_or_throw(a.row_token, capacity, "tokens of rows", -1);
  resize_or_throw(a.row_weight, capacity, "weights of rows");
  a.offsets.push_back(0);
  for (const Tokens& of_expert : kept) {
    std::copy(of_expert.begin(), of_expert.end(), a.row_token.begin() + a.offsets.back());
    a.offsets.push_back(a.offsets.back() + static_cast<std::int64_t>(of_expert.size()));
  }
  return a;
}

// Rows ascend with their experts, so that those of a token do.
void list_rows_by_token(RoundedTokens& a) {
  resize_or_throw(a.token_offsets, a.tokens + 1, "offsets of tokens");
  resize_or_throw(a.token_rows, static_cast<std::int64_t>(a.row_token.size()), "rows of tokens", -1);
  for_each_row(a, [&](std::int64_t /*expert*/, std::size_t row) {
    ++a.token_offsets[static_cast<std::size_t>(a.row_token[row]) + 1];
  });
  for (std::size_t t = 1; t < a.token_offsets.size(); ++t) a.token_offsets[t] += a.token_offsets[t - 1];
  std::vector<std::int64_t> next(a.token_offsets.begin(), a.token_offsets.end() - 1);
  for_each_row(a, [&](std::int64_t /*expert*/, std::size_t row) {
    const std::int64_t at = next[static_cast<std::size_t>(a.row_token[row])]++;
    a.token_rows[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(row);
  });
}

// Scores over those of the token's kept experts, added by ascending expert, which is the order of rows.
void weigh_by_scores(RoundedTokens& a, std::span<const float> scores, bool renormalize, float scale) {
  std::vector<float> sums(static_cast<std::size_t>(a.tokens), 0.0F);
  for_each_row(a, [&](std::int64_t expert, std::size_t row) {
    const std::int64_t token = a.row_token[row];
    const float score = scores[static_cast<std::size_t>(token * a.experts + expert)];
    a.row_weight[row] = score;
    sums[static_cast<std::size_t>(token)] += score;
  });
  for_each_row(a, [&](std::int64_t /*expert*/, std::size_t row) {
    float& weight = a.row_weight[row];
    if (renormalize) {
      const float sum = sums[static_cast<std::size_t>(a.row_token[row])];
      weight = sum == 0 ? 0.0F : weight / sum;
    }
    weight *= scale;
  });
}

// The rows get the weights of token choice, which have their scale.
void weigh_by_routes(RoundedTokens& a, const Routes& routes, const RouteMetadata& chosen) {
  for_each_row(a, [&](std::int64_t /*expert*/, std::size_t row) {
    a.row_weight[row] = routes.weights[static_cast<std::size_t>(chosen.row_slot[row])];
  });
}

}  // namespace

RoundedTokens round_tokens(const Router& router, const TokenRounding& token_rounding, const MatrixView& logits,
                           int threads) {
  check_matrix(logits);
  const std::int64_t tokens = logits.rows;
  const std::int64_t experts = logits.cols;
  const std::int64_t capacity = token_rounding_capacity(router, token_rounding, tokens, experts);
  const Routes routes = route(router, logits, threads);
  const RouteMetadata chosen = route_metadata(routes.experts, routes.top_k, {}, experts, 1);
  const bool plain = token_rounding.rule == TokenRoundingRule::none;
  const std::vector<float> scores = plain ? std::vector<float>() : router_scores(router, logits, threads);

  std::vector<Tokens> kept(static_cast<std::size_t>(experts));
  if (plain) {
    for (std::size_t e = 0; e < kept.size(); ++e) {
      kept[e].assign(chosen.row_token.begin() + chosen.offsets[e], chosen.row_token.begin() + chosen.offsets[e + 1]);
    }
  } else {
    const TokenRanks ranks(chosen, scores, tokens, threads);
    const std::vector<std::int64_t> counts =
        rounded_counts(token_rounding, chosen.counts, tokens,
                       token_rounding.rule == TokenRoundingRule::nr_s
                           ? boundary_scores(ranks, chosen.counts, token_rounding.tile, tokens, threads)
                           : std::vector<std::vector<float>>());
    parallel_ranges(experts, experts * tokens, threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t e = begin; e < end; ++e) {
        const auto i = static_cast<std::size_t>(e);
        kept[i] = kept_tokens(token_rounding.rule, ranks, e, counts[i]);
      }
    });
  }

  RoundedTokens a = rows_by_expert(kept, tokens, capacity);
  a.chosen = chosen.counts;
  list_rows_by_token(a);
  if (plain) {
    weigh_by_routes(a, routes, chosen);
  } else {
    weigh_by_scores(a, scores, token_rounding.renormalize, router.scale);
  }
  return a;
}

// The rules by name, and the checks of them that need no routes.

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

void check_rows(std::int64_t rows, const std::string& what) {
  if (rows > router_parts::kMostRows)
    refuse_usage(what + ": " + std::to_string(rows) + " rows are more than int32 counts");
}

using Uint128 = unsigned __int128;

// digits * 10^exponent.
struct Decimal {
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
};

[[noreturn]] void refuse_factor(std::string_view text, const char* why) {
  refuse_usage("capacity factor '" + std::string(text) + "': " + why);
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
    refuse_usage("top_k " + std::to_string(router.top_k) + " of " + std::to_string(tokens) + " x " +
                 std::to_string(experts) + " logits: must be in [1, experts]");
  }
  if (rounds_to_tiles(token_rounding.rule) && token_rounding.tile < 1) {
    refuse_usage("tile " + std::to_string(token_rounding.tile) + ": must be 1 or more");
  }
  if (takes_capacity(token_rounding.rule) && token_rounding.capacity < 0) {
    refuse_usage("capacity " + std::to_string(token_rounding.capacity) + ": must be 0 or more");
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
  if (!takes_capacity(rule)) refuse_usage("a capacity factor: only expert-choice and the capacity rules take one");
  if (tokens < 0 || top_k < 0 || experts < 1) {
    refuse_usage("capacity of " + std::to_string(tokens) + " tokens, top_k " + std::to_string(top_k) + ", " +
                 std::to_string(experts) + " experts: sizes must be 0 or more, experts 1 or more");
  }
  const Decimal decimal = parse_decimal(factor);
  // Below 10^19 * 2^63, which is below 2^127.
  Uint128 value = Uint128{decimal.digits} * static_cast<std::uint64_t>(checked_product(tokens, top_k, "routes"));
  if (value == 0) return 0;
  const auto too_large = [] { refuse_usage("capacity: beyond 2^63 - 1; use a smaller factor"); };
  const auto most = static_cast<Uint128>(std::numeric_limits<std::int64_t>::max());
  const bool rounds_up = rule == TokenRoundingRule::expert_choice;
  const auto divide = [rounds_up](Uint128 n, Uint128 by) { return n / by + (rounds_up && n % by != 0 ? 1U : 0U); };
  // A value beyond 2^126, over fewer than 2^63 experts, is a capacity beyond 2^63; the loop ends there.
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

namespace {

using Keys = std::vector<std::uint64_t>;

std::int64_t size_of(const Keys& keys) { return static_cast<std::int64_t>(keys.size()); }

// The smallest `count` keys to the front, in no order.
void select(Keys& keys, std::int64_t count) {
  if (count < size_of(keys)) std::nth_element(keys.begin(), keys.begin() + count, keys.end());
}

std::int32_t token_of(std::uint64_t key) { return static_cast<std::int32_t>(key & 0xFFFFFFFFU); }

std::vector<std::int32_t> ascending_tokens(const Keys& keys) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(keys.size());
  for (const std::uint64_t key : keys) tokens.push_back(token_of(key));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

// In squares that stay in the cache.
std::vector<float> transposed(std::span<const float> scores, std::int64_t tokens, std::int64_t experts, int threads) {
  constexpr std::int64_t kSquare = 32;
  std::vector<float> columns;
  resize_or_throw(columns, tokens * experts, "scores by expert");
  parallel_ranges(ceil_div(tokens, kSquare), tokens * experts, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t square = begin; square < end; ++square) {
      const std::int64_t last = std::min((square + 1) * kSquare, tokens);
      for (std::int64_t e0 = 0; e0 < experts; e0 += kSquare) {
        for (std::int64_t e = e0; e < std::min(e0 + kSquare, experts); ++e) {
          for (std::int64_t t = square * kSquare; t < last; ++t) {
            columns[static_cast<std::size_t>(e * tokens + t)] = scores[static_cast<std::size_t>(t * experts + e)];
          }
        }
      }
    }
  });
  return columns;
}

}  // namespace

TokenRanks::TokenRanks(const RouteMetadata& chosen, std::span<const float> scores, std::int64_t tokens, int threads)
    : metadata_(chosen),
      tokens_(tokens),
      scores_(transposed(scores, tokens, static_cast<std::int64_t>(chosen.counts.size()), threads)) {}

std::span<const std::int32_t> TokenRanks::chosen(std::int64_t expert) const {
  const auto e = static_cast<std::size_t>(expert);
  return std::span(metadata_.row_token)
      .subspan(static_cast<std::size_t>(metadata_.offsets[e]), static_cast<std::size_t>(metadata_.counts[e]));
}

// Keys ascend where preference descends: the bits of a score >= +0 are ordered as the scores are.
std::uint64_t TokenRanks::key(std::int64_t expert, std::int64_t token) const {
  const float score = scores_[static_cast<std::size_t>(expert * tokens_ + token)] + 0.0F;  // -0 becomes +0
  return static_cast<std::uint64_t>(0x7FFFFFFFU - std::bit_cast<std::uint32_t>(score)) << 32 |
         static_cast<std::uint32_t>(token);
}

Keys TokenRanks::keys_of_chosen(std::int64_t expert) const {
  Keys keys;
  for (const std::int32_t token : chosen(expert)) keys.push_back(key(expert, token));
  return keys;
}

Keys TokenRanks::keys_of_others(std::int64_t expert) const {
  const std::span<const std::int32_t> skipped = chosen(expert);
  Keys keys;
  keys.reserve(static_cast<std::size_t>(tokens_) - skipped.size());
  auto next = skipped.begin();
  for (std::int64_t token = 0; token < tokens_; ++token) {
    if (next != skipped.end() && *next == token) {
      ++next;
    } else {
      keys.push_back(key(expert, token));
    }
  }
  return keys;
}

std::vector<std::int32_t> TokenRanks::first(std::int64_t expert, std::int64_t count) const {
  Keys keys = keys_of_chosen(expert);
  const std::int64_t f = size_of(keys);
  if (count < f) {
    select(keys, count);
    keys.resize(static_cast<std::size_t>(count));
  } else if (count > f) {
    Keys others = keys_of_others(expert);
    select(others, count - f);
    keys.insert(keys.end(), others.begin(), others.begin() + (count - f));
  }
  return ascending_tokens(keys);
}

std::vector<std::int32_t> TokenRanks::first_by_score(std::int64_t expert, std::int64_t count) const {
  Keys keys;
  keys.reserve(static_cast<std::size_t>(tokens_));
  for (std::int64_t token = 0; token < tokens_; ++token) keys.push_back(key(expert, token));
  select(keys, count);
  keys.resize(static_cast<std::size_t>(count));
  return ascending_tokens(keys);
}

std::vector<float> TokenRanks::scores_around_chosen(std::int64_t expert, std::int64_t begin, std::int64_t end) const {
  Keys keys = keys_of_chosen(expert);
  const std::int64_t f = size_of(keys);
  select(keys, begin);
  keys.erase(keys.begin(), keys.begin() + begin);
  std::sort(keys.begin(), keys.end());
  Keys others = keys_of_others(expert);
  select(others, end - f);
  others.resize(static_cast<std::size_t>(end - f));
  std::sort(others.begin(), others.end());
  keys.insert(keys.end(), others.begin(), others.end());
  std::vector<float> scores;
  scores.reserve(keys.size());
  for (const std::uint64_t key : keys) {
    scores.push_back(scores_[static_cast<std::size_t>(expert * tokens_ + token_of(key))]);
  }
  return scores;
}

// The number of tokens that chose an expert becomes the number that it gets.

namespace {

[[noreturn]] void rounded_counts_refuse(ErrorKind kind, const std::string& text) {
  throw Error(kind, "rounded counts: " + text);
}

// One expert whose count lies between two multiples of the tile that its tokens can fill.
struct Choice {
  std::int64_t over;   // f - down, > 0
  std::int64_t under;  // up - f, > 0
  bool down_is_odd;    // down / tile
};

// Admitting the strongest that did not choose the expert against losing the weakest that did.
bool nearer_by_scores(const Choice& c, std::span<const float> scores) {
  float lost = 0;
  float gained = 0;
  const auto over = static_cast<std::size_t>(c.over);
  for (const float s : scores.first(over)) lost += s;
  for (const float s : scores.subspan(over)) gained += s;
  return gained < lost;
}

bool by_chance(const Choice& c, const TokenRounding& token_rounding, std::size_t expert) {
  const std::uint64_t w = philox_word(token_rounding.seed, static_cast<std::uint32_t>(expert), token_rounding.layer,
                                      static_cast<std::uint32_t>(token_rounding.step),
                                      static_cast<std::uint32_t>(token_rounding.step >> 32));
  // Both below 2^63: the tile is at most tokens, an int32.
  return w * static_cast<std::uint64_t>(token_rounding.tile) < static_cast<std::uint64_t>(c.over) << 32;
}

bool goes_up(const Choice& c, const TokenRounding& token_rounding, std::size_t expert, std::int64_t residual,
             const std::vector<std::vector<float>>& boundary_scores) {
  switch (token_rounding.rule) {
    case TokenRoundingRule::nr_f: return c.under < c.over;
    case TokenRoundingRule::nr_even: return c.under < c.over || (c.under == c.over && c.down_is_odd);
    case TokenRoundingRule::sr_f: return by_chance(c, token_rounding, expert);
    case TokenRoundingRule::nr_s: {
      const std::span<const float> scores = boundary_scores[expert];
      if (std::cmp_not_equal(scores.size(), token_rounding.tile)) {
        rounded_counts_refuse(ErrorKind::usage,
                              "expert " + std::to_string(expert) + " has " + std::to_string(scores.size()) +
                                  " scores at ranks down + 1 to up: nr-s needs " + std::to_string(token_rounding.tile));
      }
      return nearer_by_scores(c, scores);
    }
    case TokenRoundingRule::balance_f: return std::abs(residual + c.under) < std::abs(residual - c.over);
    case TokenRoundingRule::up: return true;
    default: return false;
  }
}

std::int64_t limited(const TokenRounding& token_rounding, std::int64_t f, std::int64_t tokens) {
  switch (token_rounding.rule) {
    case TokenRoundingRule::expert_choice: return std::min(token_rounding.capacity, tokens);
    case TokenRoundingRule::capacity_order:
    case TokenRoundingRule::capacity_score:
      return token_rounding.capacity == 0 ? f : std::min(token_rounding.capacity, f);
    default: return f;
  }
}

void check(const TokenRounding& token_rounding, std::span<const std::int32_t> chosen, std::int64_t tokens,
           const std::vector<std::vector<float>>& boundary_scores) {
  if (tokens < 0 || tokens > std::numeric_limits<std::int32_t>::max()) {
    rounded_counts_refuse(ErrorKind::usage,
                          std::to_string(tokens) + " tokens: must be 0 or more, and what int32 counts");
  }
  if (rounds_to_tiles(token_rounding.rule) && token_rounding.tile < 1) {
    rounded_counts_refuse(ErrorKind::usage, "tile " + std::to_string(token_rounding.tile) + ": must be 1 or more");
  }
  if (!rounds_to_tiles(token_rounding.rule) && token_rounding.rule != TokenRoundingRule::none &&
      token_rounding.capacity < 0) {
    rounded_counts_refuse(ErrorKind::usage,
                          "capacity " + std::to_string(token_rounding.capacity) + ": must be 0 or more");
  }
  if (token_rounding.rule == TokenRoundingRule::nr_s && boundary_scores.size() != chosen.size()) {
    rounded_counts_refuse(ErrorKind::usage, "scores of " + std::to_string(boundary_scores.size()) +
                                                " experts for counts of " + std::to_string(chosen.size()));
  }
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    if (chosen[e] < 0 || chosen[e] > tokens) {
      rounded_counts_refuse(ErrorKind::input, "expert " + std::to_string(e) + " was chosen by " +
                                                  std::to_string(chosen[e]) + " tokens: must be in [0, " +
                                                  std::to_string(tokens) + "]");
    }
  }
}

}  // namespace

std::vector<std::int64_t> rounded_counts(const TokenRounding& token_rounding, std::span<const std::int32_t> chosen,
                                         std::int64_t tokens, const std::vector<std::vector<float>>& boundary_scores) {
  check(token_rounding, chosen, tokens, boundary_scores);
  std::vector<std::int64_t> counts;
  counts.reserve(chosen.size());
  std::int64_t residual = 0;
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    const std::int64_t f = chosen[e];
    std::int64_t r = f;
    if (!rounds_to_tiles(token_rounding.rule)) {
      r = limited(token_rounding, f, tokens);
    } else if (f % token_rounding.tile != 0) {
      const std::int64_t down = f - f % token_rounding.tile;
      r = down;
      if (token_rounding.tile <= tokens - down) {  // there are tokens to fill up
        const Choice choice{f - down, down + token_rounding.tile - f, down / token_rounding.tile % 2 != 0};
        if (goes_up(choice, token_rounding, e, residual, boundary_scores)) r = down + token_rounding.tile;
      }
    }
    residual += r - f;
    counts.push_back(r);
  }
  return counts;
}

}  // namespace mxcheck
