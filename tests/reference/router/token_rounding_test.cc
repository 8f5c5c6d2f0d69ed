// Cases whose answer is known by hand or by construction, and refusals. properties_test.cc has the drawn ones, weights
// and scores.

#include <boost/multiprecision/cpp_int.hpp>

#include "reference/router/parts.h"
#include "reference/router/token_rounding.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/token_rounding_oracle.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using router_parts::TokenRanks;

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
  for (const std::int64_t top_k : {-1, 0, 3})
    EXPECT_EQ(thrown(router_of("topk-softmax", top_k), {}, kSix.view()).kind, ErrorKind::usage);
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

using Counts = std::vector<std::int64_t>;
using Chosen = std::vector<std::int32_t>;

constexpr std::array kRounding{TokenRoundingRule::nr_f,    TokenRoundingRule::sr_f,      TokenRoundingRule::nr_s,
                               TokenRoundingRule::nr_even, TokenRoundingRule::balance_f, TokenRoundingRule::up,
                               TokenRoundingRule::down};

TokenRounding rounding(TokenRoundingRule rule, std::int64_t tile) { return {.rule = rule, .tile = tile}; }

TEST(RoundedCounts, send_halves_down_or_to_the_even_multiple) {
  struct Row {
    std::int32_t f;
    std::int64_t nr_f, nr_even;
  };
  const std::vector<Row> table{{0, 0, 0},       {1, 0, 0},       {63, 0, 0},      {64, 0, 0},      {65, 128, 128},
                               {127, 128, 128}, {128, 128, 128}, {129, 128, 128}, {191, 128, 128}, {192, 128, 256},
                               {193, 256, 256}, {256, 256, 256}, {319, 256, 256}, {320, 256, 256}, {321, 384, 384},
                               {447, 384, 384}, {448, 384, 512}, {449, 512, 512}, {512, 512, 512}};
  for (const Row& row : table) {
    EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::nr_f, 128), Chosen{row.f}, 1024), Counts{row.nr_f}) << row.f;
    EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::nr_even, 128), Chosen{row.f}, 1024), Counts{row.nr_even})
        << row.f;
  }
}

// Scores of ranks down + 1 to up in descending order, but for those that did not choose the expert.
std::vector<float> drawn_scores(std::mt19937_64& engine, std::int64_t over, std::int64_t tile) {
  std::vector<float> scores;
  for (std::int64_t i = 0; i < tile; ++i) scores.push_back(static_cast<float>(engine() % 8) / 7.0F);
  std::sort(scores.begin(), scores.begin() + over, std::greater<>());
  std::sort(scores.begin() + over, scores.end(), std::greater<>());
  return scores;
}

// Every count from 0 to 2 tiles and 1, every rule, and from just as many tokens to more than are asked for.
TEST(RoundedCounts, are_those_of_the_oracle_for_every_count_to_two_tiles) {
  std::mt19937_64 engine(1);
  for (const std::int64_t tile : {1, 2, 3, 8, 128}) {
    for (std::int64_t f = 0; f <= 2 * tile + 1; ++f) {
      const std::int64_t down = f / tile * tile;
      const std::int64_t up = (f + tile - 1) / tile * tile;
      for (const std::int64_t tokens : {f, f + 1, up - 1, up, up + 1, 3 * tile}) {
        if (tokens < f) continue;
        for (const TokenRoundingRule rule : kRounding) {
          TokenRounding token_rounding = rounding(rule, tile);
          token_rounding.seed = engine();
          std::vector<float> ranked(static_cast<std::size_t>(down), 2.0F);
          std::vector<std::vector<float>> boundary(1);
          if (f != down && up <= tokens) {
            boundary[0] = drawn_scores(engine, f - down, tile);
            ranked.insert(ranked.end(), boundary[0].begin(), boundary[0].end());
          }
          const Counts counts = rounded_counts(token_rounding, Chosen{static_cast<std::int32_t>(f)}, tokens, boundary);
          const std::string text = std::string(to_text(rule)) + ", f " + std::to_string(f) + " of " +
                                   std::to_string(tokens) + ", tile " + std::to_string(tile);
          ASSERT_EQ(counts.size(), 1U);
          const std::int64_t r = counts[0];
          EXPECT_EQ(r, oracle_count(token_rounding, f, tokens, 0, ranked, 0)) << text;
          EXPECT_EQ(r % tile, 0) << text;
          EXPECT_LT(std::abs(r - f), tile) << text;
          EXPECT_TRUE(r == down || r == up) << text;
          EXPECT_LE(r, tokens) << text;
          EXPECT_TRUE(r == down || up <= tokens) << text;
          if (rule == TokenRoundingRule::nr_f || rule == TokenRoundingRule::nr_even) {
            EXPECT_TRUE(2 * std::abs(r - f) <= tile || up > tokens) << text;
          }
        }
      }
    }
  }
}

// Counts of the experts before decide how an expert's is rounded; residuals by hand.
TEST(RoundedCounts, of_balance_f_carry_the_residual) {
  // tile 4: 2 is a half and goes down (z -2); the next 1 would go down alone (z -3), but up gives +1; 3 from +1: down
  // gives -2, up +2, a tie, down; 4 is a multiple; 2 from -2: up gives 0.
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::balance_f, 4), Chosen{2, 1, 3, 4, 2}, 100),
            (Counts{0, 4, 0, 4, 4}));
  // With 3 tokens nothing goes up.
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::balance_f, 4), Chosen{2, 1, 3}, 3), (Counts{0, 0, 0}));
  // 7 of 7 tokens is forced down (z -3), so that 1 goes up (z 0), and 1 down (z -1).
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::balance_f, 4), Chosen{7, 1, 1}, 7), (Counts{4, 4, 0}));
}

TEST(RoundedCounts, of_balance_f_have_a_residual_of_at_most_half_a_tile_at_every_prefix) {
  std::mt19937_64 engine(2);
  for (int trial = 0; trial < 2000; ++trial) {
    constexpr std::array<std::int64_t, 6> kTiles{1, 2, 3, 7, 32, 128};
    const std::int64_t tile = kTiles[engine() % kTiles.size()];
    const auto tokens = static_cast<std::int64_t>(engine() % 2000);
    Chosen chosen;
    const std::int64_t most = tokens / tile * tile;  // whatever lies below can go up
    for (std::uint64_t e = engine() % 40; e-- > 0;)
      chosen.push_back(static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(most + 1)));
    const Counts counts = rounded_counts(rounding(TokenRoundingRule::balance_f, tile), chosen, tokens);
    std::int64_t residual = 0;
    for (std::size_t e = 0; e < chosen.size(); ++e) {
      residual += counts[e] - chosen[e];
      ASSERT_LE(2 * std::abs(residual), tile) << "expert " << e << " of trial " << trial;
    }
  }
}

TEST(RoundedCounts, of_nr_s_compare_the_scores_lost_and_gained) {
  const TokenRounding token_rounding = rounding(TokenRoundingRule::nr_s, 4);
  const auto count = [&](const std::vector<float>& scores, std::int32_t f) {
    return rounded_counts(token_rounding, Chosen{f}, 100, {scores})[0];
  };
  EXPECT_EQ(count({0.5F, 0.1F, 0.1F, 0.1F}, 5), 8);    // one strong would be lost, three weak are gained: nr-f says 4
  EXPECT_EQ(count({0.1F, 0.1F, 0.1F, 0.75F}, 7), 4);   // and the reverse: nr-f says 8
  EXPECT_EQ(count({0.5F, 0.25F, 0.5F, 0.25F}, 6), 4);  // equal: down
  EXPECT_EQ(count({0, 0, 0, 0}, 7), 4);
  const float inf = kInf;
  EXPECT_EQ(count({inf, 1, 1, 1}, 5), 8);
  EXPECT_EQ(count({inf, inf, 1, 1}, 7), 8);
  EXPECT_EQ(count({inf, inf, inf, 1}, 6), 4);  // both infinite: down
}

TEST(RoundedCounts, of_nr_s_add_in_the_order_of_ranks_in_fp32) {
  const float tiny = 0x1p-24F;  // half the distance of FP32 numbers at 1: 1 + tiny is 1, tiny + tiny + 1 is not
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::nr_s, 4), Chosen{3}, 100, {{1, tiny, tiny, 1}}), Counts{0});
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::nr_s, 4), Chosen{3}, 100, {{tiny, tiny, 1, 1}}), Counts{4});
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::nr_s, 4), Chosen{1}, 100, {{0x1.000002p0F, 1, tiny, tiny}}),
            Counts{4});
  EXPECT_EQ(rounded_counts(rounding(TokenRoundingRule::nr_s, 4), Chosen{1}, 100, {{0x1.000002p0F, tiny, tiny, 1}}),
            Counts{0});
}

// word 0 of Philox4x32-10 computed apart; 0x6627E8D5 is the published test vector of zeros. over is the smallest f -
// down above w * 128 / 2^32.
TEST(RoundedCounts, of_sr_f_go_up_where_the_word_of_seed_layer_step_and_expert_says) {
  struct Row {
    std::uint64_t seed;
    std::uint32_t layer;
    std::uint64_t step;
    std::array<std::pair<std::uint32_t, std::int32_t>, 3> word_and_over;  // of experts 0, 1 and 2
  };
  const std::uint64_t high = std::uint64_t{1} << 32;
  for (const Row& row :
       {Row{0, 0, 0, {{{0x6627E8D5, 52}, {0xF8E4CCA4, 125}, {0x04FAA329, 3}}}},
        Row{1, 0, 0, {{{0xE3E80670, 114}, {0xAC08141B, 87}, {0x3F55B3F0, 32}}}},
        Row{high, 0, 0, {{{0xFDDE3E0B, 127}, {0xCCF3076A, 103}, {0x9F3B3C64, 80}}}},
        Row{0, 1, 0, {{{0x6AD0C5EC, 54}, {0x6DA11836, 55}, {0x183C90A5, 13}}}},
        Row{0, 0, 1, {{{0x844515E1, 67}, {0xCA7CF69E, 102}, {0xC5FA1393, 99}}}},
        Row{0, 0, high, {{{0x2DCE73E5, 23}, {0xE9535BE3, 117}, {0x18553B6F, 13}}}},
        Row{0x0123456789ABCDEF, 7, 0xFEDCBA9876543210, {{{0xA02ED7E4, 81}, {0x47ADC21A, 36}, {0xB65E0A9B, 92}}}}}) {
    for (std::size_t expert = 0; expert < 3; ++expert) {
      const auto [word, over] = row.word_and_over[expert];
      EXPECT_EQ((std::uint64_t{word} * 128 >> 32) + 1, static_cast<std::uint64_t>(over));
      TokenRounding token_rounding = rounding(TokenRoundingRule::sr_f, 128);
      token_rounding.seed = row.seed, token_rounding.layer = row.layer, token_rounding.step = row.step;
      for (const std::int32_t down : {0, 128, 1280}) {
        Chosen chosen(expert, 0);  // counts of experts before make no difference
        chosen.push_back(down + over - 1);
        EXPECT_EQ(rounded_counts(token_rounding, chosen, 4096).back(), down) << std::hex << word;
        chosen.back() = down + over;
        EXPECT_EQ(rounded_counts(token_rounding, chosen, 4096).back(), down + 128) << std::hex << word;
      }
    }
  }
}

TEST(RoundedCounts, of_sr_f_go_down_where_both_sides_are_equal) {
  TokenRounding token_rounding = rounding(TokenRoundingRule::sr_f, 1 << 22);
  token_rounding.seed = 141;  // word 0xB3408400, whose low ten bits are 0
  EXPECT_EQ(rounded_counts(token_rounding, Chosen{0xB3408400U >> 10}, 1 << 23), Counts{0});
  EXPECT_EQ(rounded_counts(token_rounding, Chosen{(0xB3408400U >> 10) + 1}, 1 << 23), Counts{1 << 22});
}

// Hoeffding: the mean of n draws is off its expectation by more than t with a chance of at most 2 exp(-2 n t^2); that
// is 1e-9 for t = sqrt(log(2e9) / (2 n)).
TEST(RoundedCounts, of_sr_f_go_up_as_often_as_they_should) {
  const int seeds = 100;
  const int steps = 100;
  const std::vector<std::int32_t> overs{1, 13, 32, 64, 100, 127};
  const double draws = seeds * steps;
  const double bound = std::sqrt(std::log(2e9) / (2 * draws));
  std::vector<int> ups(overs.size(), 0);
  for (int seed = 0; seed < seeds; ++seed) {
    for (int step = 0; step < steps; ++step) {
      TokenRounding token_rounding = rounding(TokenRoundingRule::sr_f, 128);
      token_rounding.seed = static_cast<std::uint64_t>(seed);
      token_rounding.step = static_cast<std::uint64_t>(step);
      const Counts counts = rounded_counts(token_rounding, overs, 1024);
      for (std::size_t e = 0; e < overs.size(); ++e) ups[e] += counts[e] != 0 ? 1 : 0;
    }
  }
  for (std::size_t e = 0; e < overs.size(); ++e)
    EXPECT_NEAR(ups[e] / draws, overs[e] / 128.0, bound) << "f - down = " << overs[e];
}

TEST(RoundedCounts, of_rules_without_tiles_are_limited_by_the_capacity) {
  const Chosen chosen{0, 3, 10, 7};
  EXPECT_EQ(rounded_counts({.rule = TokenRoundingRule::none, .tile = 0, .capacity = 5}, chosen, 10),
            (Counts{0, 3, 10, 7}));
  EXPECT_EQ(rounded_counts({.rule = TokenRoundingRule::expert_choice, .capacity = 5}, chosen, 10),
            (Counts{5, 5, 5, 5}));
  EXPECT_EQ(rounded_counts({.rule = TokenRoundingRule::expert_choice, .capacity = 11}, chosen, 10),
            (Counts{10, 10, 10, 10}));
  EXPECT_EQ(rounded_counts({.rule = TokenRoundingRule::expert_choice, .capacity = 0}, chosen, 10),
            (Counts{0, 0, 0, 0}));
  for (const TokenRoundingRule rule : {TokenRoundingRule::capacity_order, TokenRoundingRule::capacity_score}) {
    EXPECT_EQ(rounded_counts({.rule = rule, .capacity = 5}, chosen, 10), (Counts{0, 3, 5, 5}));
    EXPECT_EQ(rounded_counts({.rule = rule, .capacity = 0}, chosen, 10), (Counts{0, 3, 10, 7}));
  }
}

TEST(RoundedCounts, of_tiles_beyond_all_tokens_are_none) {
  for (const std::int64_t tile : {std::int64_t{11}, std::numeric_limits<std::int64_t>::max()}) {
    for (const TokenRoundingRule rule : kRounding)
      EXPECT_EQ(rounded_counts(rounding(rule, tile), Chosen{0, 3, 10}, 10, std::vector<std::vector<float>>(3)),
                (Counts{0, 0, 0}));
  }
}

TEST(RoundedCounts, refuse_what_makes_no_sense) {
  const auto thrown = [](const TokenRounding& token_rounding, const Chosen& chosen, std::int64_t tokens,
                         const std::vector<std::vector<float>>& scores = {}) {
    return thrown_by([&] { static_cast<void>(rounded_counts(token_rounding, chosen, tokens, scores)); });
  };
  const auto expect = [](const Thrown& t, ErrorKind kind, const std::string& text) {
    EXPECT_EQ(t.kind, kind);
    EXPECT_EQ(t.text, "rounded counts: " + text);
  };
  const TokenRounding down = rounding(TokenRoundingRule::down, 4);
  expect(thrown(rounding(TokenRoundingRule::up, 0), {1}, 4), ErrorKind::usage, "tile 0: must be 1 or more");
  expect(thrown({.rule = TokenRoundingRule::capacity_order, .capacity = -1}, {1}, 4), ErrorKind::usage,
         "capacity -1: must be 0 or more");
  expect(thrown(down, {}, -1), ErrorKind::usage, "-1 tokens: must be 0 or more, and what int32 counts");
  expect(thrown(down, {}, std::int64_t{1} << 31), ErrorKind::usage,
         "2147483648 tokens: must be 0 or more, and what int32 counts");
  expect(thrown(down, {0, -1}, 4), ErrorKind::input, "expert 1 was chosen by -1 tokens: must be in [0, 4]");
  expect(thrown(down, {0, 4, 5}, 4), ErrorKind::input, "expert 2 was chosen by 5 tokens: must be in [0, 4]");
  expect(thrown(rounding(TokenRoundingRule::nr_s, 4), {1}, 4), ErrorKind::usage, "scores of 0 experts for counts of 1");
  expect(thrown(rounding(TokenRoundingRule::nr_s, 4), {1}, 4, {{1, 1, 1}}), ErrorKind::usage,
         "expert 0 has 3 scores at ranks down + 1 to up: nr-s needs 4");
}

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
    if (choosers_first)
      std::stable_partition(all.begin(), all.end(),
                            [&](auto t) { return std::binary_search(first.begin(), first.end(), t); });
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
      for (const std::int64_t end : {f, f + 1, f + 10, std::int64_t{100}})
        EXPECT_EQ(ranks.scores_around_chosen(e, begin, end),
                  std::vector<float>(ordered.begin() + begin, ordered.begin() + end))
            << e << ", " << begin << " to " << end;
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
    for (std::int64_t e = 0; e < experts; ++e)
      EXPECT_EQ(many.first_by_score(e, 300), one.first_by_score(e, 300)) << threads;
  }
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(TokenRoundingRules, have_names_in_the_order_of_the_enumeration) {
  const std::vector<std::string> names{"none", "nr-f",    "sr-f",          "nr-s",           "balance-f",     "up",
                                       "down", "nr-even", "expert-choice", "capacity-order", "capacity-score"};
  ASSERT_EQ(all_token_rounding_rules().size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TokenRoundingRuleSpec& rule = all_token_rounding_rules()[i];
    EXPECT_EQ(rule.name, names[i]);
    EXPECT_EQ(static_cast<std::size_t>(rule.rule), i);
    EXPECT_EQ(token_rounding_rule_named(rule.name), rule.rule);
    EXPECT_EQ(rounds_to_tiles(rule.rule), i >= 1 && i <= 7) << rule.name;
    EXPECT_FALSE(rule.meaning.empty());
  }
  expect_thrown(ErrorKind::usage,
                "unknown rule 'nr'; known are none, nr-f, sr-f, nr-s, balance-f, up, down, nr-even, expert-choice, "
                "capacity-order, capacity-score",
                [] { token_rounding_rule_named("nr"); });
}

std::int64_t capacity_of(TokenRoundingRule rule, std::int64_t top_k, std::int64_t tile, std::int64_t capacity,
                         std::int64_t tokens, std::int64_t experts) {
  Router router;
  router.top_k = top_k;
  return token_rounding_capacity(router, {.rule = rule, .tile = tile, .capacity = capacity}, tokens, experts);
}

TEST(TokenRoundingCapacity, is_what_a_rule_can_fill_at_most) {
  EXPECT_EQ(capacity_of(TokenRoundingRule::none, 2, 8, 0, 100, 5), 200);
  EXPECT_EQ(capacity_of(TokenRoundingRule::capacity_order, 2, 8, 3, 100, 5), 200);
  EXPECT_EQ(capacity_of(TokenRoundingRule::capacity_score, 2, 8, 3, 100, 5), 200);
  EXPECT_EQ(capacity_of(TokenRoundingRule::expert_choice, 2, 8, 3, 100, 5), 15);
  EXPECT_EQ(capacity_of(TokenRoundingRule::expert_choice, 2, 8, 300, 100, 5), 500);
  EXPECT_EQ(capacity_of(TokenRoundingRule::expert_choice, 2, 8, 0, 100, 5), 0);
  for (const TokenRoundingRule rule :
       {TokenRoundingRule::nr_f, TokenRoundingRule::sr_f, TokenRoundingRule::nr_s, TokenRoundingRule::balance_f,
        TokenRoundingRule::up, TokenRoundingRule::down, TokenRoundingRule::nr_even}) {
    EXPECT_EQ(capacity_of(rule, 2, 8, 3, 100, 5), 235);
    EXPECT_EQ(capacity_of(rule, 2, 1, 3, 100, 5), 200);
    EXPECT_EQ(capacity_of(rule, 4, 128, 3, 100, 5), 500);  // all pairs
    EXPECT_EQ(capacity_of(rule, 4, kMost, 3, 100, 5), 500);
    EXPECT_EQ(capacity_of(rule, 1, 128, 3, 0, 5), 0);
  }
}

TEST(TokenRoundingCapacity, refuses_what_int32_cannot_count_and_what_makes_no_sense) {
  const auto text = [](auto... values) {
    return text_thrown(ErrorKind::usage, [&] { static_cast<void>(capacity_of(values...)); });
  };
  EXPECT_EQ(capacity_of(TokenRoundingRule::none, 1, 1, 0, (std::int64_t{1} << 31) - 1, 2), (std::int64_t{1} << 31) - 1);
  EXPECT_EQ(text(TokenRoundingRule::none, 2, 1, 0, 1 << 30, 2), "routes: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(text(TokenRoundingRule::expert_choice, 1, 1, 0, std::int64_t{1} << 31, 2),
            "tokens: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(text(TokenRoundingRule::expert_choice, 1, 1, 1 << 20, 1 << 20, 1 << 11),
            "capacity: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(text(TokenRoundingRule::nr_f, 1, 1 << 20, 0, 1 << 20, 1 << 11),
            "capacity: 2147483648 rows are more than int32 counts");
  EXPECT_EQ(capacity_of(TokenRoundingRule::nr_f, 1, 1 << 20, 0, 1 << 20, (1 << 11) - 1), ((1LL << 11) - 1) << 20);
  EXPECT_EQ(text(TokenRoundingRule::up, 1, kMost, 0, 1 << 30, kMost),
            "rows admitted: 9223372036854775807 x 1073741824 is beyond 2^63 - 1; use smaller dimensions");
  EXPECT_EQ(text(TokenRoundingRule::up, 1, 0, 0, 4, 4), "tile 0: must be 1 or more");
  EXPECT_EQ(text(TokenRoundingRule::expert_choice, 1, 0, -1, 4, 4), "capacity -1: must be 0 or more");
  EXPECT_EQ(capacity_of(TokenRoundingRule::none, 1, 0, -1, 4, 4), 4);  // neither is the rule's
  for (const std::int64_t top_k : {-1, 0, 5})
    EXPECT_EQ(text(TokenRoundingRule::none, top_k, 1, 0, 4, 4),
              "top_k " + std::to_string(top_k) + " of 4 x 4 logits: must be in [1, experts]");
  EXPECT_EQ(text(TokenRoundingRule::none, 1, 1, 0, -1, 4), "top_k 1 of -1 x 4 logits: must be in [1, experts]");
}

TEST(CapacityFromFactor, is_exact_for_the_decimal_that_is_written) {
  const TokenRoundingRule up = TokenRoundingRule::expert_choice;
  const TokenRoundingRule down = TokenRoundingRule::capacity_order;
  EXPECT_EQ(capacity_from_factor(up, "1.25", 1024, 8, 64), 160);
  EXPECT_EQ(capacity_from_factor(down, "1.25", 1024, 8, 64), 160);
  EXPECT_EQ(capacity_from_factor(up, "1", 100, 2, 7), 29);
  EXPECT_EQ(capacity_from_factor(TokenRoundingRule::capacity_score, "1", 100, 2, 7), 28);
  EXPECT_EQ(capacity_from_factor(up, "1.1", 10, 1, 1), 11);   // the double is above 1.1,
  EXPECT_EQ(capacity_from_factor(down, "0.3", 10, 1, 1), 3);  // and this one below 0.3
  EXPECT_EQ(capacity_from_factor(up, "1.10000000000000001", 10, 1, 1), 12);
  EXPECT_EQ(capacity_from_factor(up, "0.0000000000000000000011", 1, 1, 1), 1);        // zeros in front are no digits
  EXPECT_EQ(capacity_from_factor(up, "1.10000000000000000000000000", 10, 1, 1), 11);  // nor those behind
  EXPECT_EQ(capacity_from_factor(up, "100000000000000000000e-20", 10, 1, 1), 10);
  EXPECT_EQ(capacity_from_factor(up, ".5", 10, 1, 1), 5);
  EXPECT_EQ(capacity_from_factor(up, "5.", 10, 1, 1), 50);
  EXPECT_EQ(capacity_from_factor(up, "+5E+2", 10, 1, 1), 5000);
  EXPECT_EQ(capacity_from_factor(up, "0", 10, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(up, "0e999999999999", 10, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(up, "1", 0, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(up, "1e-400", kMost, 1, kMost), 1);  // above 0
  EXPECT_EQ(capacity_from_factor(up, "1e-999999999", kMost, 1, kMost), 1);
  EXPECT_EQ(capacity_from_factor(down, "1e-400", kMost, 1, 1), 0);
  EXPECT_EQ(capacity_from_factor(down, "1", kMost, 1, 1), kMost);
  EXPECT_EQ(capacity_from_factor(down, "4611686018427387904", kMost, 1, kMost), std::int64_t{1} << 62);
}

TEST(CapacityFromFactor, is_the_quotient_of_rational_numbers) {
  using boost::multiprecision::cpp_int;
  std::mt19937_64 engine(5);
  int within = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto below_bits = [&](int bits) { return static_cast<std::int64_t>(engine() >> (64 - bits)); };
    const int exponent = static_cast<int>(engine() % 90) - 60;
    const std::int64_t m = below_bits(1 + static_cast<int>(engine() % 63));
    const std::string factor = std::to_string(m) + "e" + std::to_string(exponent);
    const std::int64_t tokens = below_bits(1 + static_cast<int>(engine() % 40));
    const std::int64_t top_k = below_bits(1 + static_cast<int>(engine() % 20));
    const std::int64_t experts = 1 + below_bits(1 + static_cast<int>(engine() % 62));
    cpp_int n = cpp_int(m) * tokens * top_k;
    cpp_int d = experts;
    (exponent < 0 ? d : n) *= boost::multiprecision::pow(cpp_int(10), static_cast<unsigned>(std::abs(exponent)));
    for (const TokenRoundingRule rule : {TokenRoundingRule::expert_choice, TokenRoundingRule::capacity_order}) {
      const cpp_int expected = rule == TokenRoundingRule::expert_choice ? cpp_int((n + d - 1) / d) : cpp_int(n / d);
      std::int64_t got = -1;
      const auto thrown = thrown_by([&] { got = capacity_from_factor(rule, factor, tokens, top_k, experts); });
      if (expected <= kMost) {
        EXPECT_EQ(got, expected) << factor << " " << tokens << " " << top_k << " " << experts;
        ++within;
      } else {
        EXPECT_EQ(thrown.text, "capacity: beyond 2^63 - 1; use a smaller factor");
        EXPECT_EQ(thrown.kind, ErrorKind::usage);
      }
    }
  }
  EXPECT_GT(within, 20000);
  EXPECT_LT(within, 39000);
}

TEST(CapacityFromFactor, refuses_what_makes_no_sense) {
  const auto text = [](TokenRoundingRule rule, std::string_view factor, std::int64_t tokens, std::int64_t top_k,
                       std::int64_t experts) {
    const auto thrown =
        thrown_by([&] { static_cast<void>(capacity_from_factor(rule, factor, tokens, top_k, experts)); });
    EXPECT_EQ(thrown.kind, ErrorKind::usage);
    return thrown.text;
  };
  const TokenRoundingRule rule = TokenRoundingRule::expert_choice;
  for (const char* factor : {"", "-1", "-0", "nan", "inf", "0x1p0", "1,1", "1.1.1", ".", "e5", "1e", "1e+", "1e5.5",
                             " 1", "1 ", "1.1x", "++1", "+-1"}) {
    EXPECT_EQ(text(rule, factor, 1, 1, 10),
              "capacity factor '" + std::string(factor) + "': must be a decimal number, 0 or more, such as 1.25");
  }
  EXPECT_EQ(text(rule, "1.2345678901234567890123", 1, 1, 10),
            "capacity factor '1.2345678901234567890123': has more than 19 significant digits");
  for (const TokenRoundingRule other : {TokenRoundingRule::none, TokenRoundingRule::nr_f, TokenRoundingRule::nr_even})
    EXPECT_EQ(text(other, "1", 1, 1, 1), "a capacity factor: only expert-choice and the capacity rules take one");
  const std::string rest = " experts: sizes must be 0 or more, experts 1 or more";
  EXPECT_EQ(text(rule, "1", 1, 1, 0), "capacity of 1 tokens, top_k 1, 0" + rest);
  EXPECT_EQ(text(rule, "1", -1, 1, 10), "capacity of -1 tokens, top_k 1, 10" + rest);
  EXPECT_EQ(text(rule, "1", 1, -1, 10), "capacity of 1 tokens, top_k -1, 10" + rest);
  for (const char* factor : {"9223372036854775808", "1e19", "1e39", "1e400", "1e99999999999999999999"})
    EXPECT_EQ(text(rule, factor, 1, 1, 1), "capacity: beyond 2^63 - 1; use a smaller factor") << factor;
  EXPECT_EQ(text(rule, "1", kMost, 2, 1), "routes: 9223372036854775807 x 2 is beyond 2^63 - 1; use smaller dimensions");
}

}  // namespace
}  // namespace mxcheck
