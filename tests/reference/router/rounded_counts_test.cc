#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "reference/router/token_rounding.h"
#include "tests/reference/router/token_rounding_oracle.h"

namespace mxcheck {
namespace {

using test::thrown_by;
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
          EXPECT_EQ(r, test::oracle_count(token_rounding, f, tokens, 0, ranked, 0)) << text;
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

// What the experts before were given decides; residuals by hand.
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
    for (std::uint64_t e = engine() % 40; e-- > 0;) {
      chosen.push_back(static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(most + 1)));
    }
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
  const float inf = std::numeric_limits<float>::infinity();
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
    std::size_t expert;
    std::uint32_t word;
    std::int32_t over;
  };
  const std::uint64_t high = std::uint64_t{1} << 32;
  const std::uint64_t long_seed = 0x0123456789ABCDEF;
  const std::uint64_t long_step = 0xFEDCBA9876543210;
  const std::vector<Row> table{{0, 0, 0, 0, 0x6627E8D5, 52},
                               {0, 0, 0, 1, 0xF8E4CCA4, 125},
                               {0, 0, 0, 2, 0x04FAA329, 3},
                               {1, 0, 0, 0, 0xE3E80670, 114},
                               {1, 0, 0, 1, 0xAC08141B, 87},
                               {1, 0, 0, 2, 0x3F55B3F0, 32},
                               {high, 0, 0, 0, 0xFDDE3E0B, 127},
                               {high, 0, 0, 1, 0xCCF3076A, 103},
                               {high, 0, 0, 2, 0x9F3B3C64, 80},
                               {0, 1, 0, 0, 0x6AD0C5EC, 54},
                               {0, 1, 0, 1, 0x6DA11836, 55},
                               {0, 1, 0, 2, 0x183C90A5, 13},
                               {0, 0, 1, 0, 0x844515E1, 67},
                               {0, 0, 1, 1, 0xCA7CF69E, 102},
                               {0, 0, 1, 2, 0xC5FA1393, 99},
                               {0, 0, high, 0, 0x2DCE73E5, 23},
                               {0, 0, high, 1, 0xE9535BE3, 117},
                               {0, 0, high, 2, 0x18553B6F, 13},
                               {long_seed, 7, long_step, 0, 0xA02ED7E4, 81},
                               {long_seed, 7, long_step, 1, 0x47ADC21A, 36},
                               {long_seed, 7, long_step, 2, 0xB65E0A9B, 92}};
  for (const Row& row : table) {
    EXPECT_EQ((std::uint64_t{row.word} * 128 >> 32) + 1, static_cast<std::uint64_t>(row.over));
    TokenRounding token_rounding = rounding(TokenRoundingRule::sr_f, 128);
    token_rounding.seed = row.seed;
    token_rounding.layer = row.layer;
    token_rounding.step = row.step;
    for (const std::int32_t down : {0, 128, 1280}) {
      Chosen chosen(row.expert, 0);  // counts of experts before make no difference
      chosen.push_back(down + row.over - 1);
      EXPECT_EQ(rounded_counts(token_rounding, chosen, 4096).back(), down) << std::hex << row.word;
      chosen.back() = down + row.over;
      EXPECT_EQ(rounded_counts(token_rounding, chosen, 4096).back(), down + 128) << std::hex << row.word;
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
  for (std::size_t e = 0; e < overs.size(); ++e) {
    EXPECT_NEAR(ups[e] / draws, overs[e] / 128.0, bound) << "f - down = " << overs[e];
  }
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
    for (const TokenRoundingRule rule : kRounding) {
      EXPECT_EQ(rounded_counts(rounding(rule, tile), Chosen{0, 3, 10}, 10, std::vector<std::vector<float>>(3)),
                (Counts{0, 0, 0}));
    }
  }
}

TEST(RoundedCounts, refuse_what_makes_no_sense) {
  const auto thrown = [](const TokenRounding& token_rounding, const Chosen& chosen, std::int64_t tokens,
                         const std::vector<std::vector<float>>& scores = {}) {
    return thrown_by([&] { static_cast<void>(rounded_counts(token_rounding, chosen, tokens, scores)); });
  };
  const auto expect = [](const test::Thrown& t, ErrorKind kind, const std::string& text) {
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

}  // namespace
}  // namespace mxcheck
