// Cases whose answer is known by hand or by construction, and refusals. token_rounding_properties_test.cc has the drawn
// ones, token_rounding_weights_test.cc weights and scores.

#include "reference/router/token_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/reference/router/token_rounding_cases.h"
#include "tests/reference/router/token_rounding_oracle.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(TokenRounding, drops_the_weakest_and_admits_the_strongest) {
  const Router router = router_of("topk-softmax", 1);
  const RoundedTokens a = round_tokens(router, {.rule = TokenRoundingRule::nr_f, .tile = 3}, kSix.view());
  EXPECT_EQ(a.tokens, 6);
  EXPECT_EQ(a.experts, 2);
  EXPECT_EQ(a.chosen, (Ints{4, 2}));
  EXPECT_EQ(a.offsets, (Offsets{0, 3, 6}));  // 4 goes down to 3, 2 up to 3
  EXPECT_EQ(a.row_token, (Ints{0, 1, 2, 3, 4, 5, -1, -1, -1, -1}));
  EXPECT_EQ(a.row_weight, (Floats{1, 1, 1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(a.token_offsets, (Offsets{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(a.token_rows, (Ints{0, 1, 2, 3, 4, 5, -1, -1, -1, -1}));
}

TEST(TokenRounding, leaves_tokens_without_an_expert_and_gives_others_several) {
  const Router router = router_of("topk-softmax", 1);
  const RoundedTokens a = round_tokens(router, {.rule = TokenRoundingRule::nr_f, .tile = 4}, kSix.view());
  EXPECT_EQ(a.offsets, (Offsets{0, 4, 4}));  // 4 stays; 2 of 4 is a half and goes down
  EXPECT_EQ(a.row_token, (Ints{0, 1, 2, 5, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(a.token_offsets, (Offsets{0, 1, 2, 3, 3, 3, 4}));
  const RoundedTokens up = round_tokens(router, {.rule = TokenRoundingRule::up, .tile = 5}, kSix.view());
  EXPECT_EQ(tokens_by_expert(up), (Sets{{0, 1, 2, 4, 5}, {1, 3, 4, 5, 2}}));
  EXPECT_EQ(up.token_offsets, (Offsets{0, 1, 3, 5, 6, 8, 10}));
  EXPECT_EQ(up.token_rows, (Ints{0, 1, 5, 2, 6, 7, 3, 8, 4, 9, -1, -1}));
  const Floats scores = router_scores(router, kSix.view());
  EXPECT_EQ(up.row_weight[0], 1);
  EXPECT_EQ(up.row_weight[4], scores[10] / (scores[10] + scores[11]));  // token 5, expert 0
  EXPECT_EQ(up.row_weight[9], scores[11] / (scores[10] + scores[11]));
  const RoundedTokens raw =
      round_tokens(router, {.rule = TokenRoundingRule::up, .tile = 5, .renormalize = false}, kSix.view());
  EXPECT_EQ(raw.row_token, up.row_token);
  EXPECT_EQ(raw.row_weight[0], scores[0]);
  EXPECT_EQ(raw.row_weight[9], scores[11]);
}

TEST(TokenRounding, gives_equal_scores_to_the_smaller_tokens) {
  const TestMatrix equal = fp32_matrix(10, 3, Floats(30, 1));
  const Router router = router_of("softmax-topk", 2);
  for (const TokenRoundingRule rule :
       {TokenRoundingRule::nr_f, TokenRoundingRule::nr_s, TokenRoundingRule::up, TokenRoundingRule::balance_f}) {
    const RoundedTokens a = round_tokens(router, {.rule = rule, .tile = 4}, equal.view());
    EXPECT_EQ(a.chosen, (Ints{10, 10, 0}));  // 12 is more than there are tokens
    EXPECT_EQ(tokens_by_expert(a), (Sets{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {}}));
    EXPECT_EQ(a.token_offsets, (Offsets{0, 2, 4, 6, 8, 10, 12, 14, 16, 16, 16}));
  }
  const RoundedTokens choice =
      round_tokens(router, {.rule = TokenRoundingRule::expert_choice, .capacity = 2}, equal.view());
  EXPECT_EQ(tokens_by_expert(choice), (Sets{{0, 1}, {0, 1}, {0, 1}}));
  const RoundedTokens score =
      round_tokens(router, {.rule = TokenRoundingRule::capacity_score, .capacity = 3}, equal.view());
  EXPECT_EQ(tokens_by_expert(score), (Sets{{0, 1, 2}, {0, 1, 2}, {}}));
}

// Logits that differ, by less than exp can see: the choice is anyone's, all scores are equal.
TEST(TokenRounding, by_scores_is_that_by_counts_where_all_scores_are_equal) {
  std::mt19937_64 engine(7);
  for (const std::int64_t experts : {2, 7, 16}) {
    const std::int64_t tokens = 200;
    Floats logits;
    for (std::int64_t i = 0; i < tokens * experts; ++i)
      logits.push_back(static_cast<float>(engine() % 1024) * 0x1p-50F);
    const TestMatrix m = fp32_matrix(tokens, experts, logits);
    const Router router = router_of("topk-softmax", 2);
    for (const std::int64_t tile : {2, 3, 8, 32}) {
      const RoundedTokens by_count = round_tokens(router, {.rule = TokenRoundingRule::nr_f, .tile = tile}, m.view());
      const RoundedTokens by_score = round_tokens(router, {.rule = TokenRoundingRule::nr_s, .tile = tile}, m.view());
      EXPECT_TRUE(same(by_count, by_score)) << experts << " experts, tile " << tile;
    }
  }
}

TEST(TokenRounding, has_room_for_an_expert_that_takes_all_and_experts_without_tokens) {
  Floats logits(7 * 4, 0);
  for (std::size_t t = 0; t < 7; ++t) logits[t * 4 + 2] = 10;
  const TestMatrix m = fp32_matrix(7, 4, logits);
  const Router router = router_of("topk-softmax", 1);
  const auto offsets = [&](TokenRoundingRule rule) {
    return round_tokens(router, {.rule = rule, .tile = 3}, m.view()).offsets;
  };
  EXPECT_EQ(round_tokens(router, {.rule = TokenRoundingRule::none}, m.view()).offsets, (Offsets{0, 0, 0, 7, 7}));
  EXPECT_EQ(offsets(TokenRoundingRule::nr_f), (Offsets{0, 0, 0, 6, 6}));
  EXPECT_EQ(offsets(TokenRoundingRule::up), (Offsets{0, 0, 0, 6, 6}));  // 9 would be more than there are
  EXPECT_EQ(offsets(TokenRoundingRule::down), (Offsets{0, 0, 0, 6, 6}));
}

TEST(TokenRounding, keeps_all_pairs_where_all_experts_are_chosen) {
  const TestMatrix m = fp32_matrix(12, 5, normal_logits(60, 3));
  const Router router = router_of("sigmoid", 5);
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    for (const std::int64_t tile : {1, 2, 3, 4, 6, 12}) {
      const RoundedTokens a = round_tokens(router, {.rule = rule.rule, .tile = tile, .capacity = 12}, m.view());
      EXPECT_EQ(a.chosen, Ints(5, 12));
      EXPECT_EQ(a.offsets, (Offsets{0, 12, 24, 36, 48, 60})) << rule.name;
      EXPECT_EQ(a.token_offsets.back(), 60);
      EXPECT_EQ(a.token_offsets[1], 5);  // a token has as many experts as there are
    }
  }
}

TEST(TokenRounding, of_no_tokens_is_empty) {
  const TestMatrix m = fp32_matrix(0, 4, {});
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    const RoundedTokens a = round_tokens(router_of("sigmoid", 2), {.rule = rule.rule, .capacity = 3}, m.view());
    EXPECT_EQ(a.offsets, Offsets(5, 0)) << rule.name;
    EXPECT_EQ(a.token_offsets, Offsets(1, 0));
    EXPECT_TRUE(a.row_token.empty());
  }
}

TEST(TokenRounding, cuts_to_capacity_by_token_or_by_score) {
  const Router router = router_of("topk-softmax", 1);
  const auto sets = [&](TokenRoundingRule rule, std::int64_t capacity) {
    return tokens_by_expert(round_tokens(router, {.rule = rule, .capacity = capacity}, kSix.view()));
  };
  const Sets all{{0, 1, 2, 5}, {3, 4}};
  EXPECT_EQ(sets(TokenRoundingRule::capacity_order, 2), (Sets{{0, 1}, {3, 4}}));
  EXPECT_EQ(sets(TokenRoundingRule::capacity_score, 2), (Sets{{0, 2}, {3, 4}}));
  EXPECT_EQ(sets(TokenRoundingRule::capacity_order, 1), (Sets{{0}, {3}}));
  EXPECT_EQ(sets(TokenRoundingRule::capacity_order, 0), all);
  EXPECT_EQ(sets(TokenRoundingRule::capacity_score, 0), all);
  EXPECT_EQ(sets(TokenRoundingRule::capacity_score, 100), all);
  EXPECT_EQ(sets(TokenRoundingRule::expert_choice, 3), (Sets{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(sets(TokenRoundingRule::expert_choice, 0), (Sets{{}, {}}));
  EXPECT_EQ(sets(TokenRoundingRule::expert_choice, 100), (Sets{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}}));
}

TEST(TokenRounding, refuses_what_makes_no_sense) {
  const auto thrown = [](const Router& router, const TokenRounding& token_rounding, const MatrixView& logits) {
    return thrown_by([&] { static_cast<void>(round_tokens(router, token_rounding, logits)); });
  };
  const Router router = router_of("topk-softmax", 1);
  const auto tile = thrown(router, {.rule = TokenRoundingRule::up, .tile = 0}, kSix.view());
  EXPECT_EQ(tile.kind, ErrorKind::usage);
  EXPECT_EQ(tile.text, "tile 0: must be 1 or more");
  const auto capacity = thrown(router, {.rule = TokenRoundingRule::capacity_order, .capacity = -1}, kSix.view());
  EXPECT_EQ(capacity.kind, ErrorKind::usage);
  EXPECT_EQ(capacity.text, "capacity -1: must be 0 or more");
  for (const std::int64_t top_k : {-1, 0, 3}) {
    EXPECT_EQ(thrown(router_of("topk-softmax", top_k), {}, kSix.view()).kind, ErrorKind::usage);
  }
  MatrixView huge = kSix.view();
  huge.rows = (std::int64_t{1} << 31) - 1;  // refused before anything is read
  const auto rows = thrown(router_of("topk-softmax", 2), {.rule = TokenRoundingRule::none}, huge);
  EXPECT_EQ(rows.kind, ErrorKind::usage);
  EXPECT_EQ(rows.text, "routes: 4294967294 rows are more than int32 counts");
  MatrixView wrong = kSix.view();
  wrong.cols = -1;
  EXPECT_EQ(thrown(router, {}, wrong).kind, ErrorKind::usage);
  const TestMatrix nan = fp32_matrix(1, 2, {0, std::nanf("")});
  EXPECT_EQ(thrown(router, {}, nan.view()).kind, ErrorKind::input);
}

}  // namespace
}  // namespace mxcheck
