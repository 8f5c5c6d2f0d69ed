// Properties of every rule, on drawn cases, and equality with the slow way.

#include <gtest/gtest.h>

#include <cmath>

#include "reference/router/token_rounding.h"
#include "tests/reference/router/token_rounding_cases.h"
#include "tests/reference/router/token_rounding_oracle.h"

namespace mxcheck {
namespace {

using test::draw_case;
using test::same;
using test::TestMatrix;
using test::TokenRoundingCase;
using test::tokens_by_expert;

constexpr std::uint64_t kCases = test::kSanitized ? 100 : 400;

// visit(case, assignment, text) for every drawn case and every rule that holds.
template <class Holds, class Visit>
void for_each_case(Holds holds, Visit visit) {
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    TokenRoundingCase c = draw_case(seed);
    const TestMatrix m = c.matrix();
    for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
      if (!holds(rule.rule)) continue;
      c.token_rounding.rule = rule.rule;
      visit(c, m.view(), std::string(rule.name) + ": " + c.text() + ", seed " + std::to_string(seed));
    }
  }
}

std::vector<std::set<std::int32_t>> token_choice(const TokenRoundingCase& c, const MatrixView& logits) {
  return tokens_by_expert(round_tokens(c.router(), {.rule = TokenRoundingRule::none}, logits));
}

bool is_subset(const std::set<std::int32_t>& a, const std::set<std::int32_t>& b) {
  return std::includes(b.begin(), b.end(), a.begin(), a.end());
}

TEST(TokenRoundingProperties, is_that_of_the_slow_way) {
  for_each_case([](TokenRoundingRule) { return true; },
                [](const TokenRoundingCase& c, const MatrixView& logits, const std::string& text) {
                  const RoundedTokens a = round_tokens(c.router(), c.token_rounding, logits);
                  EXPECT_TRUE(same(a, test::oracle_round_tokens(c.router(), c.token_rounding, logits))) << text;
                });
}

TEST(TokenRoundingProperties, counts_are_multiples_of_the_tile_next_to_the_counts_chosen) {
  for_each_case(rounds_to_tiles, [](const TokenRoundingCase& c, const MatrixView& logits, const std::string& text) {
    const RoundedTokens a = round_tokens(c.router(), c.token_rounding, logits);
    const auto kept = tokens_by_expert(a);
    for (std::size_t e = 0; e < kept.size(); ++e) {
      const auto r = static_cast<std::int64_t>(kept[e].size());
      EXPECT_EQ(r % c.token_rounding.tile, 0) << text;
      EXPECT_LT(std::abs(r - a.chosen[e]), c.token_rounding.tile) << text;
      if (a.chosen[e] % c.token_rounding.tile == 0) {
        EXPECT_EQ(r, a.chosen[e]) << text;
      }
    }
  });
}

// Kept tokens contain those that chose the expert or are contained in them; and only the last tile differs: the first
// `down` in the order of scores among those that chose it are kept.
TEST(TokenRoundingProperties, only_the_last_tile_differs_from_token_choice) {
  for_each_case(rounds_to_tiles, [](const TokenRoundingCase& c, const MatrixView& logits, const std::string& text) {
    const RoundedTokens a = round_tokens(c.router(), c.token_rounding, logits);
    const auto kept = tokens_by_expert(a);
    const auto chosen = token_choice(c, logits);
    const std::vector<float> scores = router_scores(c.router(), logits);
    for (std::size_t e = 0; e < kept.size(); ++e) {
      const bool up = kept[e].size() >= chosen[e].size();
      EXPECT_TRUE(up ? is_subset(chosen[e], kept[e]) : is_subset(kept[e], chosen[e])) << text;
      if (c.token_rounding.rule == TokenRoundingRule::down) {
        EXPECT_TRUE(is_subset(kept[e], chosen[e])) << text;
      }
      const std::int64_t f = a.chosen[e];
      const std::int64_t down = f - f % c.token_rounding.tile;
      if (c.token_rounding.rule == TokenRoundingRule::up && c.token_rounding.tile <= c.tokens - down) {
        EXPECT_TRUE(is_subset(chosen[e], kept[e])) << text;
      }
      // Whatever is kept beats whatever is not, among those that chose the expert and among the others.
      const auto score = [&](std::int32_t t) {
        return scores[static_cast<std::size_t>(t) * static_cast<std::size_t>(c.experts) + e];
      };
      for (const bool chose : {true, false}) {
        std::pair<float, std::int32_t> worst_kept{-INFINITY, 0};  // less score, so that smaller is better
        std::pair<float, std::int32_t> best_dropped{INFINITY, 0};
        for (std::int32_t t = 0; t < c.tokens; ++t) {
          if (chosen[e].contains(t) != chose) continue;
          const std::pair<float, std::int32_t> place{-score(t), t};
          if (kept[e].contains(t)) worst_kept = std::max(worst_kept, place);
          if (!kept[e].contains(t)) best_dropped = std::min(best_dropped, place);
        }
        EXPECT_LT(worst_kept, best_dropped) << text << ", expert " << e;
      }
    }
  });
}

TEST(TokenRoundingProperties, a_tile_of_one_is_token_choice) {
  for_each_case(rounds_to_tiles, [](TokenRoundingCase c, const MatrixView& logits, const std::string& text) {
    c.token_rounding.tile = 1;
    EXPECT_EQ(tokens_by_expert(round_tokens(c.router(), c.token_rounding, logits)), token_choice(c, logits)) << text;
  });
}

TEST(TokenRoundingProperties, nearest_is_within_half_a_tile_and_balance_so_in_all) {
  for_each_case(
      [](TokenRoundingRule rule) {
        return rule == TokenRoundingRule::nr_f || rule == TokenRoundingRule::nr_even ||
               rule == TokenRoundingRule::balance_f;
      },
      [](const TokenRoundingCase& c, const MatrixView& logits, const std::string& text) {
        const RoundedTokens a = round_tokens(c.router(), c.token_rounding, logits);
        std::int64_t residual = 0;
        for (std::size_t e = 0; e < a.chosen.size(); ++e) {
          const std::int64_t down = a.chosen[e] - a.chosen[e] % c.token_rounding.tile;
          if (down != a.chosen[e] && c.token_rounding.tile > c.tokens - down) break;  // up is not possible
          const std::int64_t difference = a.offsets[e + 1] - a.offsets[e] - a.chosen[e];
          residual = (c.token_rounding.rule == TokenRoundingRule::balance_f ? residual : 0) + difference;
          EXPECT_LE(2 * std::abs(residual), c.token_rounding.tile) << text << ", expert " << e;
        }
      });
}

TEST(TokenRoundingProperties, rows_by_expert_and_by_token_are_each_others_inverse) {
  for_each_case([](TokenRoundingRule) { return true; },
                [](const TokenRoundingCase& c, const MatrixView& logits, const std::string& text) {
                  const RoundedTokens a = round_tokens(c.router(), c.token_rounding, logits);
                  const auto capacity = static_cast<std::size_t>(
                      token_rounding_capacity(c.router(), c.token_rounding, c.tokens, c.experts));
                  ASSERT_EQ(a.row_token.size(), capacity) << text;
                  ASSERT_EQ(a.row_weight.size(), capacity) << text;
                  ASSERT_EQ(a.token_rows.size(), capacity) << text;
                  ASSERT_EQ(a.offsets.size(), static_cast<std::size_t>(c.experts) + 1) << text;
                  ASSERT_EQ(a.token_offsets.size(), static_cast<std::size_t>(c.tokens) + 1) << text;
                  EXPECT_EQ(a.offsets.front(), 0);
                  EXPECT_EQ(a.token_offsets.front(), 0);
                  EXPECT_EQ(a.offsets.back(), a.token_offsets.back()) << text;
                  EXPECT_TRUE(std::is_sorted(a.offsets.begin(), a.offsets.end())) << text;
                  EXPECT_TRUE(std::is_sorted(a.token_offsets.begin(), a.token_offsets.end())) << text;
                  std::set<std::int32_t> rows;
                  for (std::int32_t t = 0; t < c.tokens; ++t) {
                    std::int32_t before = -1;
                    for (auto i = a.token_offsets[static_cast<std::size_t>(t)];
                         i < a.token_offsets[static_cast<std::size_t>(t) + 1]; ++i) {
                      const std::int32_t row = a.token_rows[static_cast<std::size_t>(i)];
                      EXPECT_GT(row, before) << text;  // experts ascend
                      before = row;
                      EXPECT_EQ(a.row_token.at(static_cast<std::size_t>(row)), t) << text;
                      rows.insert(row);
                    }
                  }
                  EXPECT_EQ(static_cast<std::int64_t>(rows.size()), a.offsets.back()) << text;
                  for (std::size_t e = 0; e + 1 < a.offsets.size(); ++e) {
                    for (std::int64_t row = a.offsets[e] + 1; row < a.offsets[e + 1]; ++row) {
                      const auto r = static_cast<std::size_t>(row);
                      EXPECT_LT(a.row_token[r - 1], a.row_token[r]) << text;  // so each token at most once
                    }
                  }
                  for (auto i = static_cast<std::size_t>(a.offsets.back()); i < capacity; ++i) {
                    EXPECT_EQ(a.row_token[i], -1) << text;
                    EXPECT_EQ(a.token_rows[i], -1) << text;
                    EXPECT_EQ(std::bit_cast<std::uint32_t>(a.row_weight[i]), 0U) << text;
                  }
                });
}

// n weights are off their exact quotients by at most 2^-24 each, the sum they were divided by by n - 1 times that: so
// their sum is within n * 2^-24 of 1, or twice that for the terms of higher order; absolute 2^-149 for subnormal ones.
TEST(TokenRoundingProperties, renormalized_weights_add_up_to_one) {
  for_each_case([](TokenRoundingRule rule) { return rule != TokenRoundingRule::none; },
                [](TokenRoundingCase c, const MatrixView& logits, const std::string& text) {
                  c.token_rounding.renormalize = true;
                  c.base.scale = 1;
                  const RoundedTokens a = round_tokens(c.router(), c.token_rounding, logits);
                  for (std::size_t t = 0; t + 1 < a.token_offsets.size(); ++t) {
                    double sum = 0;
                    const std::int64_t n = a.token_offsets[t + 1] - a.token_offsets[t];
                    for (std::int64_t i = a.token_offsets[t]; i < a.token_offsets[t + 1]; ++i) {
                      sum += a.row_weight[static_cast<std::size_t>(a.token_rows[static_cast<std::size_t>(i)])];
                    }
                    if (sum == 0) continue;  // no rows, or scores of 0
                    EXPECT_NEAR(sum, 1, static_cast<double>(n) * 0x1p-23) << text << ", token " << t;
                  }
                });
}

TEST(TokenRoundingProperties, do_not_depend_on_threads) {
  TokenRoundingCase c = draw_case(1);
  c.tokens = 700;
  c.experts = 130;  // enough for five threads
  c.bias.clear();
  c.logits.clear();
  std::mt19937_64 engine(3);
  for (std::int64_t i = 0; i < c.tokens * c.experts; ++i)
    c.logits.push_back(static_cast<float>(engine() % 97) * 0.125F);
  c.base = Router{.variant = &router_variant_named("softmax-topk"), .top_k = 6};
  c.token_rounding.tile = 16;
  c.token_rounding.capacity = 20;
  const TestMatrix m = c.matrix();
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    c.token_rounding.rule = rule.rule;
    const RoundedTokens one = round_tokens(c.router(), c.token_rounding, m.view(), 1);
    EXPECT_TRUE(same(one, test::oracle_round_tokens(c.router(), c.token_rounding, m.view()))) << rule.name;
    for (const int threads : {0, 2, 3, 7}) {
      EXPECT_TRUE(same(round_tokens(c.router(), c.token_rounding, m.view(), threads), one))
          << rule.name << ", " << threads;
    }
  }
}

}  // namespace
}  // namespace mxcheck
