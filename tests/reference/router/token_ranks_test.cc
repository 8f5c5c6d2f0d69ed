#include "reference/router/token_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace mxcheck {
namespace {

using Ints = std::vector<std::int32_t>;

// Token choice of drawn experts and drawn scores, many of them equal; and every order by a full sort.
struct Sample {
  std::int64_t tokens, experts;
  std::vector<float> scores;
  RouteMetadata chosen;

  Sample(std::int64_t tokens_in, std::int64_t experts_in, std::uint64_t seed) : tokens(tokens_in), experts(experts_in) {
    std::mt19937_64 engine(seed);
    Ints slot_experts;
    for (std::int64_t i = 0; i < tokens * experts; ++i) {
      const auto level = static_cast<float>(engine() % 50);
      scores.push_back(level == 0 && engine() % 2 == 0 ? -0.0F : level * 0.02F);
      slot_experts.push_back(engine() % 4 == 0 ? static_cast<std::int32_t>(i % experts) : -1);
    }
    chosen = route_metadata(slot_experts, experts, {}, experts, 1);
  }

  [[nodiscard]] float score(std::int64_t token, std::int64_t expert) const {
    return scores[static_cast<std::size_t>(token * experts + expert)];
  }
  [[nodiscard]] Ints choosers(std::int64_t e) const {
    const auto at = chosen.row_token.begin() + chosen.offsets[static_cast<std::size_t>(e)];
    return {at, at + chosen.counts[static_cast<std::size_t>(e)]};
  }
  [[nodiscard]] Ints order(std::int64_t e, bool choosers_first) const {
    const Ints first = choosers(e);
    Ints all(static_cast<std::size_t>(tokens));
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(), [&](auto a, auto b) { return score(a, e) > score(b, e); });
    if (choosers_first) {
      std::stable_partition(all.begin(), all.end(),
                            [&](auto t) { return std::binary_search(first.begin(), first.end(), t); });
    }
    return all;
  }
};

Ints first_of(const Ints& order, std::int64_t count) {
  Ints tokens(order.begin(), order.begin() + count);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

TEST(TokenRanks, are_those_of_a_full_sort) {
  for (const auto& [tokens, experts] : {std::pair{1, 1}, {40, 3}, {33, 32}, {100, 70}, {1, 65}}) {
    const Sample sample(tokens, experts, 9);
    const TokenRanks ranks(sample.chosen, sample.scores, tokens, 1);
    for (std::int64_t e = 0; e < experts; ++e) {
      const Ints order = sample.order(e, true);
      const Ints by_score = sample.order(e, false);
      const Ints choosers = sample.choosers(e);
      EXPECT_TRUE(std::ranges::equal(ranks.chosen(e), choosers));
      for (std::int64_t count = 0; count <= tokens; ++count) {
        EXPECT_EQ(ranks.first(e, count), first_of(order, count)) << e << ", " << count;
        EXPECT_EQ(ranks.first_by_score(e, count), first_of(by_score, count)) << e << ", " << count;
      }
    }
  }
}

TEST(TokenRanks, give_scores_in_their_order_around_the_last_that_chose) {
  const Sample sample(100, 7, 10);
  const TokenRanks ranks(sample.chosen, sample.scores, 100, 1);
  for (std::int64_t e = 0; e < 7; ++e) {
    const auto f = static_cast<std::int64_t>(sample.choosers(e).size());
    std::vector<float> ordered;
    for (const std::int32_t t : sample.order(e, true)) ordered.push_back(sample.score(t, e));
    for (const std::int64_t begin : {std::int64_t{0}, f / 2, f - 1, f}) {
      for (const std::int64_t end : {f, f + 1, f + 10, std::int64_t{100}}) {
        EXPECT_EQ(ranks.scores_around_chosen(e, begin, end),
                  std::vector<float>(ordered.begin() + begin, ordered.begin() + end))
            << e << ", " << begin << " to " << end;
      }
    }
  }
}

TEST(TokenRanks, do_not_depend_on_threads) {
  const std::int64_t tokens = 1000;
  const std::int64_t experts = 100;  // enough for six threads
  const Sample sample(tokens, experts, 11);
  const TokenRanks one(sample.chosen, sample.scores, tokens, 1);
  for (const int threads : {2, 5, 16}) {
    const TokenRanks many(sample.chosen, sample.scores, tokens, threads);
    for (std::int64_t e = 0; e < experts; ++e) {
      EXPECT_EQ(many.first_by_score(e, 300), one.first_by_score(e, 300)) << threads;
    }
  }
}

}  // namespace
}  // namespace mxcheck
