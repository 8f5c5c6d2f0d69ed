#pragma once
// Rules that turn token choice into the final rows of each expert: token rounding, expert choice and capacity
// (docs/router.md). The number of experts of a token varies after it, so the result is rows by expert with offsets, and
// rows by token with offsets.
//
//   const TokenRounding rounding{.rule = token_rounding_rule_named("nr-f"), .tile = 128};
//   const RoundedTokens rows = round_tokens(router, rounding, logits);
//
// Sources: docs/router.md. Errors: as in router.h; Error{usage} for a tile of 0, a capacity below 0, and more rows than
// int32 can count.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/router/router.h"

namespace mxcheck {

enum class TokenRoundingRule : std::uint8_t {
  none,       // token choice as it is
  nr_f,       // nearest multiple of the tile, a half down
  sr_f,       // up with probability (f - down) / tile
  nr_s,       // nearest by the scores lost and gained
  balance_f,  // the residual of all experts so far stays within half a tile
  up,
  down,
  nr_even,         // nearest, a half to the even multiple
  expert_choice,   // each expert its `capacity` best tokens
  capacity_order,  // the first `capacity` tokens of each expert
  capacity_score,  // the best `capacity` tokens of each expert
};
struct TokenRoundingRuleSpec {
  TokenRoundingRule rule;
  std::string_view name;  // "none", "nr-f", "sr-f", "nr-s", "balance-f", "up", "down", "nr-even", "expert-choice", ...
  bool rounds_to_tiles;   // counts become multiples of TokenRounding::tile
  bool takes_capacity;    // TokenRounding::capacity limits them
  std::string_view meaning;
};
std::span<const TokenRoundingRuleSpec> all_token_rounding_rules();   // in the order of the enumeration
TokenRoundingRule token_rounding_rule_named(std::string_view name);  // Error{usage} lists the names
std::string_view to_text(TokenRoundingRule rule);
bool rounds_to_tiles(TokenRoundingRule rule);
bool takes_capacity(TokenRoundingRule rule);

struct TokenRounding {
  TokenRoundingRule rule = TokenRoundingRule::none;
  std::int64_t tile = 128;    // of the rounding rules
  std::int64_t capacity = 0;  // tokens of an expert: of expert_choice; of the capacity rules, where 0 drops nothing
  bool renormalize = true;    // weights over the kept experts of a token; false: the raw scores. Not of none
  std::uint64_t seed = 0;     // of sr_f, with layer and step
  std::uint32_t layer = 0;
  std::uint64_t step = 0;
};

struct RoundedTokens {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::vector<std::int32_t> chosen;         // [experts] tokens that chose the expert
  std::vector<std::int64_t> offsets;        // [experts + 1] of the rows of each expert
  std::vector<std::int32_t> row_token;      // [capacity] ascending within an expert; -1 after the last row
  std::vector<float> row_weight;            // [capacity] +0 after the last row
  std::vector<std::int64_t> token_offsets;  // [tokens + 1] of the rows of each token
  std::vector<std::int32_t> token_rows;     // [capacity] by token, experts ascending: the row; -1 after the last
};

// Rows that outputs have room for: tokens * top_k, experts * (tile - 1) more for rules that round to tiles (at most
// tokens * experts in all), experts * min(capacity, tokens) for expert_choice.
std::int64_t token_rounding_capacity(const Router& router, const TokenRounding& token_rounding, std::int64_t tokens,
                                     std::int64_t experts);

// ceil(factor * tokens * top_k / experts) for expert choice, floor for the capacity rules. factor is the decimal number
// as it was written ("1.25", "11e-1"), and nothing is rounded before the end: of 10 tokens "1.1" is 11, where the
// double that is nearest to 1.1 lies above it and would give 12. Error{usage} for what is no decimal number of 0 or
// more, or has more than 19 significant digits.
std::int64_t capacity_from_factor(TokenRoundingRule rule, std::string_view factor, std::int64_t tokens,
                                  std::int64_t top_k, std::int64_t experts);

RoundedTokens round_tokens(const Router& router, const TokenRounding& token_rounding, const MatrixView& logits,
                           int threads = 0);

// Rounded counts alone: what the rule makes of how many tokens chose each expert. boundary_scores, for nr_s: of each
// expert whose count is no multiple of the tile and may go up, the scores at ranks down + 1 to up in rank order, the
// first f - down of them lost by going down, the others gained by going up; others' may be empty. An expert whose up
// exceeds tokens goes down. Error{input} for a count outside [0, tokens].
std::vector<std::int64_t> rounded_counts(const TokenRounding& token_rounding, std::span<const std::int32_t> chosen,
                                         std::int64_t tokens,
                                         const std::vector<std::vector<float>>& boundary_scores = {});

}  // namespace mxcheck
