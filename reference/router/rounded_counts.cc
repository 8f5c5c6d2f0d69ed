// From the number of tokens that chose an expert to the number that it gets.

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(ErrorKind kind, const std::string& text) { throw Error(kind, "rounded counts: " + text); }

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
        refuse(ErrorKind::usage, "expert " + std::to_string(expert) + " has " + std::to_string(scores.size()) +
                                     " scores at ranks down + 1 to up: nr-s needs " +
                                     std::to_string(token_rounding.tile));
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
    refuse(ErrorKind::usage, std::to_string(tokens) + " tokens: must be 0 or more, and what int32 counts");
  }
  if (rounds_to_tiles(token_rounding.rule) && token_rounding.tile < 1) {
    refuse(ErrorKind::usage, "tile " + std::to_string(token_rounding.tile) + ": must be 1 or more");
  }
  if (!rounds_to_tiles(token_rounding.rule) && token_rounding.rule != TokenRoundingRule::none &&
      token_rounding.capacity < 0) {
    refuse(ErrorKind::usage, "capacity " + std::to_string(token_rounding.capacity) + ": must be 0 or more");
  }
  if (token_rounding.rule == TokenRoundingRule::nr_s && boundary_scores.size() != chosen.size()) {
    refuse(ErrorKind::usage, "scores of " + std::to_string(boundary_scores.size()) + " experts for counts of " +
                                 std::to_string(chosen.size()));
  }
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    if (chosen[e] < 0 || chosen[e] > tokens) {
      refuse(ErrorKind::input, "expert " + std::to_string(e) + " was chosen by " + std::to_string(chosen[e]) +
                                   " tokens: must be in [0, " + std::to_string(tokens) + "]");
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
