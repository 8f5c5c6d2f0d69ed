#pragma once
// Token rounding written a second time, the slow way: every expert sorts all tokens in full, a rounded count is found
// by going through the multiples of the tile, and weights are added token by token. From routes and scores on; how
// those come about is the router's.

#include <cstdlib>

#include "numerics/elementary/elementary.h"
#include "reference/router/token_rounding.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck::test {

// One expert's count. scores: of all tokens in the order of ranks. residual: of the experts before, for balance-f.
inline std::int64_t oracle_count(const TokenRounding& a, std::int64_t f, std::int64_t tokens, std::int64_t expert,
                                 const std::vector<float>& scores, std::int64_t residual) {
  if (a.rule == TokenRoundingRule::none) return f;
  if (a.rule == TokenRoundingRule::expert_choice) return std::min(tokens, a.capacity);
  if (!rounds_to_tiles(a.rule)) return a.capacity == 0 || f < a.capacity ? f : a.capacity;
  // Multiples that tokens can fill and that are less than a tile away: one or two, ascending.
  std::vector<std::int64_t> near;
  for (std::int64_t r = 0; r <= tokens; r += a.tile) {
    if (std::abs(r - f) < a.tile) near.push_back(r);
  }
  if (near.size() == 1) return near[0];
  const std::int64_t down = near.at(0);
  const std::int64_t up = near.at(1);
  const auto closest_to = [&](std::int64_t target, bool half_up) {
    const std::int64_t to_up = std::abs(up - target);
    const std::int64_t to_down = std::abs(down - target);
    return to_up < to_down || (to_up == to_down && half_up) ? up : down;
  };
  switch (a.rule) {
    case TokenRoundingRule::nr_f: return closest_to(f, false);
    case TokenRoundingRule::nr_even: return closest_to(f, up % (2 * a.tile) == 0);
    case TokenRoundingRule::balance_f: return closest_to(f - residual, false);
    case TokenRoundingRule::up: return up;
    case TokenRoundingRule::sr_f: {
      const std::uint64_t word =
          philox_word(a.seed, static_cast<std::uint32_t>(expert), a.layer,
                      static_cast<std::uint32_t>(a.step & 0xFFFFFFFFU), static_cast<std::uint32_t>(a.step >> 32));
      return std::cmp_less(word * static_cast<std::uint64_t>(a.tile) >> 32, f - down) ? up : down;
    }
    case TokenRoundingRule::nr_s: {
      const auto sum = [&](std::int64_t begin, std::int64_t end) {
        return std::accumulate(scores.begin() + begin, scores.begin() + end, 0.0F);
      };
      return sum(f, up) < sum(down, f) ? up : down;
    }
    default: return down;
  }
}

inline RoundedTokens oracle_round_tokens(const Router& router, const TokenRounding& a, const MatrixView& logits) {
  const Routes routes = route(router, logits);
  const std::vector<float> all_scores = router_scores(router, logits);
  const std::int64_t tokens = logits.rows;
  const std::int64_t experts = logits.cols;
  std::map<std::pair<std::int64_t, std::int64_t>, float> chosen_weight;  // (token, expert)
  for (std::int64_t i = 0; i < tokens * router.top_k; ++i)
    chosen_weight[{i / router.top_k, routes.experts.at(static_cast<std::size_t>(i))}] =
        routes.weights.at(static_cast<std::size_t>(i));
  const auto score = [&](std::int64_t t, std::int64_t e) {
    return all_scores.at(static_cast<std::size_t>(t * experts + e));
  };
  RoundedTokens out{.tokens = tokens, .experts = experts};
  std::vector<std::set<std::int32_t>> kept(static_cast<std::size_t>(experts));
  std::int64_t residual = 0;
  out.offsets.push_back(0);
  for (std::int64_t e = 0; e < experts; ++e) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(tokens));
    std::iota(order.begin(), order.end(), 0);
    const auto chose = [&](std::int64_t t) { return chosen_weight.contains({t, e}); };
    const auto f = static_cast<std::int64_t>(std::count_if(order.begin(), order.end(), chose));
    std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return score(x, e) > score(y, e); });
    if (a.rule != TokenRoundingRule::expert_choice) std::stable_partition(order.begin(), order.end(), chose);
    if (a.rule == TokenRoundingRule::capacity_order) std::sort(order.begin(), order.begin() + f);
    std::vector<float> scores;
    for (const std::int32_t t : order) scores.push_back(score(t, e));
    const std::int64_t r = oracle_count(a, f, tokens, e, scores, residual);
    residual += r - f;
    out.chosen.push_back(static_cast<std::int32_t>(f));
    out.offsets.push_back(out.offsets.back() + r);
    kept[static_cast<std::size_t>(e)] = {order.begin(), order.begin() + r};
  }

  const auto capacity = static_cast<std::size_t>(token_rounding_capacity(router, a, tokens, experts));
  out.row_token.assign(capacity, -1);
  out.row_weight.assign(capacity, 0);
  out.token_rows.assign(capacity, -1);
  out.token_offsets.push_back(0);
  for (std::int32_t t = 0; t < tokens; ++t) {
    std::map<std::int64_t, float> weight;  // by expert
    float sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (kept[static_cast<std::size_t>(e)].contains(t)) sum += weight[e] = score(t, e);
    }
    std::int64_t at = out.token_offsets.back();
    for (auto& [e, w] : weight) {
      if (a.rule == TokenRoundingRule::none) {
        w = chosen_weight.at({t, e});
      } else {
        if (a.renormalize) w = sum == 0 ? 0 : w / sum;
        w *= router.scale;
      }
      const std::set<std::int32_t>& column = kept[static_cast<std::size_t>(e)];
      const auto row = static_cast<std::size_t>(out.offsets[static_cast<std::size_t>(e)] +
                                                std::distance(column.begin(), column.find(t)));
      out.row_token.at(row) = t;
      out.row_weight.at(row) = w;
      out.token_rows.at(static_cast<std::size_t>(at++)) = static_cast<std::int32_t>(row);
    }
    out.token_offsets.push_back(at);
  }
  return out;
}

// Every field, weights by their bits.
inline bool same(const RoundedTokens& a, const RoundedTokens& b) {
  const auto bits = [](float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); };
  return a.tokens == b.tokens && a.experts == b.experts && a.chosen == b.chosen && a.offsets == b.offsets &&
         a.row_token == b.row_token && a.token_offsets == b.token_offsets && a.token_rows == b.token_rows &&
         std::equal(a.row_weight.begin(), a.row_weight.end(), b.row_weight.begin(), b.row_weight.end(), bits);
}

// Cases for tests of token rounding: a few tokens whose order is known, and drawn ones.

using Offsets = std::vector<std::int64_t>;
using Ints = std::vector<std::int32_t>;
using Sets = std::vector<std::set<std::int32_t>>;
using Floats = std::vector<float>;

inline Router router_of(const char* variant, std::int64_t top_k) {
  Router router;
  router.variant = &router_variant_named(variant);
  router.top_k = top_k;
  return router;
}

inline std::vector<float> normal_logits(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {  // a sum of twelve: near enough, and the same everywhere
    std::int64_t sum = 0;
    for (int k = 0; k < 12; ++k) sum += static_cast<std::int64_t>(engine() >> 44);
    values.push_back(static_cast<float>(sum - 6 * (1 << 20)) * 0x1p-20F);
  }
  return values;
}

// Two experts, one of them chosen: expert 0 by tokens 0, 2, 1, 5 in the order of scores, expert 1 by 3, 4. To expert 1
// the best that did not choose it is 5, to expert 0 it is 4.
inline const TestMatrix kSix = fp32_matrix(6, 2, {3, 0, 1, 0, 2, 0, 0, 1, 0, 0.5F, 0.25F, 0});

// The tokens of each expert.
inline Sets tokens_by_expert(const RoundedTokens& a) {
  Sets sets;
  for (std::size_t e = 0; e < a.chosen.size(); ++e)
    sets.emplace_back(a.row_token.begin() + a.offsets[e], a.row_token.begin() + a.offsets[e + 1]);
  return sets;
}

// Logits and what to do with them: of few distinct values one time in two, so that there are ties; some experts far
// more popular than others one time in two; -0, -Inf and NaN where the router takes them.
struct TokenRoundingCase {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
  std::vector<float> logits;
  std::vector<float> bias;
  Router base;  // without the bias, whose memory is this case's
  TokenRounding token_rounding;
  Format dtype = Format::fp32;

  [[nodiscard]] Router router() const {
    Router r = base;
    r.bias = bias;
    return r;
  }
  [[nodiscard]] TestMatrix matrix() const { return {dtype, tokens, experts, logits, 3}; }
  [[nodiscard]] std::string text() const {
    return std::to_string(tokens) + " x " + std::to_string(experts) + ", top " + std::to_string(base.top_k) + ", " +
           std::string(base.variant->name) + ", tile " + std::to_string(token_rounding.tile) + ", capacity " +
           std::to_string(token_rounding.capacity);
  }
};

inline TokenRoundingCase draw_case(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n));
  };
  TokenRoundingCase c;
  c.tokens = below(8) == 0 ? below(3) : 1 + below(160);
  c.experts = 1 + below(12);
  const auto variants = all_router_variants();
  c.base.variant = &variants[static_cast<std::size_t>(below(static_cast<std::int64_t>(variants.size())))];
  c.base.top_k = below(4) == 0 ? c.experts : 1 + below(c.experts);
  if (c.experts % 2 == 0 && !c.base.variant->packed && below(3) == 0) {
    c.base.groups = 2;
    c.base.groups_kept = 1 + below(2);
    c.base.top_k = std::min(c.base.top_k, c.experts / 2 * c.base.groups_kept);
  }
  c.base.scale = below(3) == 0 ? 2.5F : 1.0F;
  if (!c.base.variant->packed && below(2) == 0) c.base.nan = NanLogits::last;
  constexpr std::array<std::int64_t, 9> kTiles{1, 2, 3, 5, 8, 16, 32, 128, std::int64_t{1} << 62};
  c.token_rounding.tile = kTiles[static_cast<std::size_t>(below(kTiles.size()))];
  c.token_rounding.capacity = below(40);
  c.token_rounding.renormalize = below(3) != 0;
  c.token_rounding.seed = engine();
  c.token_rounding.layer = static_cast<std::uint32_t>(engine());
  c.token_rounding.step = engine();
  c.dtype = below(2) == 0 ? Format::fp32 : Format::bf16;
  const bool few = below(2) == 0;
  const bool skewed = below(2) == 0;
  const bool special = c.base.nan == NanLogits::last && below(2) == 0;
  for (std::int64_t i = 0; i < c.tokens * c.experts; ++i) {
    float x = few ? static_cast<float>(below(5) - 2) : static_cast<float>(below(1 << 20) - (1 << 19)) * 0x1p-16F;
    if (skewed) x -= static_cast<float>(i % c.experts);
    if (few && x == 0 && below(2) == 0) x = -0.0F;
    if (special && below(16) == 0) x = below(2) == 0 ? std::numeric_limits<float>::quiet_NaN() : -INFINITY;
    c.logits.push_back(x);
  }
  if (!c.base.variant->packed && below(3) == 0) {
    for (std::int64_t e = 0; e < c.experts; ++e) c.bias.push_back(static_cast<float>(below(9) - 4) * 0.25F);
  }
  return c;
}

}  // namespace mxcheck::test
