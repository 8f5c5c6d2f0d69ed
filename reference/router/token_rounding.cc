#include "reference/router/token_rounding.h"

#include <algorithm>
#include <utility>

#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/router/metadata.h"
#include "reference/router/token_ranks.h"

namespace mxcheck {
namespace {

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

// Those of token choice; they have their scale.
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

}  // namespace mxcheck
