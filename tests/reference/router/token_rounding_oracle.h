#pragma once
// Token rounding written a second time, the slow way: every expert sorts all tokens in full, a rounded count is found
// by going through the multiples of the tile, and weights are added token by token. From routes and scores on; how
// those come about is the router's.

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numerics/elementary/elementary.h"
#include "reference/router/token_rounding.h"
#include "tests/reference/common/test_matrix.h"

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
  for (std::int64_t i = 0; i < tokens * router.top_k; ++i) {
    chosen_weight[{i / router.top_k, routes.experts.at(static_cast<std::size_t>(i))}] =
        routes.weights.at(static_cast<std::size_t>(i));
  }
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

}  // namespace mxcheck::test
