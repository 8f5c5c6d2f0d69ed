#pragma once
// How many tokens an expert gets: its count, rounded to tiles by a rule, or limited to a capacity.

#include <array>
#include <cstdint>

#include "kernels/cpu/route/policy.h"

namespace mxcheck_kernels::cpu {

// Word 0 of Philox4x32-10.
inline std::uint32_t philox_first(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter[0];
}

// A count between two multiples of the tile, both of which the tokens can fill.
struct Between {
  std::int64_t down;
  std::int64_t above;  // count - down, > 0
  std::int64_t below;  // up - count, > 0
};

// Counts for one expert after the other; balance-f remembers what was added so far.
class CountRounder {
 public:
  CountRounder(const mxcheck_route_policy& policy, TokenRoundingRule rule, std::int64_t tokens)
      : policy_(policy), rule_(rule), tokens_(tokens) {}

  // False where the count stays, or can go down alone.
  bool has_choice(std::int64_t count, Between& between) const {
    const std::int64_t above = count % policy_.tile;
    between = {count - above, above, policy_.tile - above};
    return above != 0 && policy_.tile <= tokens_ - between.down;
  }

  // up_by_scores: of nr-s, whether what would be gained is less than what would be lost.
  std::int64_t operator()(std::int64_t expert, std::int64_t count, bool up_by_scores) {
    if (!rounds_to_tiles(rule_)) return limited(count);
    Between between{};
    const bool up = has_choice(count, between) && goes_up(expert, between, up_by_scores);
    const std::int64_t rounded = between.down + (up ? policy_.tile : 0);
    added_ += rounded - count;
    return rounded;
  }

 private:
  [[nodiscard]] std::int64_t limited(std::int64_t count) const {
    if (rule_ == TokenRoundingRule::expert_choice) return policy_.capacity < tokens_ ? policy_.capacity : tokens_;
    const bool limits = rule_ != TokenRoundingRule::none && policy_.capacity != 0 && policy_.capacity < count;
    return limits ? policy_.capacity : count;
  }

  [[nodiscard]] bool goes_up(std::int64_t expert, const Between& b, bool up_by_scores) const {
    const auto magnitude = [](std::int64_t v) { return v < 0 ? -v : v; };
    switch (rule_) {
      case TokenRoundingRule::nr_f: return b.below < b.above;
      case TokenRoundingRule::nr_even:
        return b.below < b.above || (b.below == b.above && b.down / policy_.tile % 2 == 1);
      case TokenRoundingRule::nr_s: return up_by_scores;
      case TokenRoundingRule::balance_f: return magnitude(added_ + b.below) < magnitude(added_ - b.above);
      case TokenRoundingRule::up: return true;
      case TokenRoundingRule::sr_f: {  // the tile is at most the number of tokens here, and that an int32
        const std::uint32_t word = philox_first(
            policy_.seed, {static_cast<std::uint32_t>(expert), policy_.layer, static_cast<std::uint32_t>(policy_.step),
                           static_cast<std::uint32_t>(policy_.step >> 32)});
        return std::uint64_t{word} * static_cast<std::uint64_t>(policy_.tile) < static_cast<std::uint64_t>(b.above)
                                                                                    << 32;
      }
      default: return false;
    }
  }

  const mxcheck_route_policy& policy_;
  TokenRoundingRule rule_;
  std::int64_t tokens_;
  std::int64_t added_ = 0;
};

}  // namespace mxcheck_kernels::cpu
