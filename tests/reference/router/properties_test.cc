// Effects of packed order and of the order of softmax and top-k: what they change and what they do not.

#include "reference/router/router.h"
#include "reference/router/token_rounding.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"
#include "tests/reference/router/token_rounding_oracle.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

using Experts = std::vector<std::int32_t>;

Experts experts_of(std::string_view name, std::int64_t top_k, const TestMatrix& matrix) {
  return route(router_of(name, top_k), matrix.view()).experts;
}

std::set<std::int32_t> as_set(const Experts& experts) { return {experts.begin(), experts.end()}; }

TEST(PackedOrder, of_fp32_is_another_set_where_values_differ_in_the_low_bits) {
  const TestMatrix row = fp32_matrix(1, 4, {1, 1 + 0x1p-23F, 0, 0});
  EXPECT_EQ(experts_of("topk-softmax", 1, row), Experts{1});
  EXPECT_EQ(experts_of("topk-softmax-packed", 1, row), Experts{0});
  // The same below zero: the larger of the two is -1, at index 1.
  const TestMatrix negative = fp32_matrix(1, 4, {-1 - 0x1p-23F, -1, -9, -9});
  EXPECT_EQ(experts_of("topk-softmax", 1, negative), Experts{1});
  EXPECT_EQ(experts_of("topk-softmax-packed", 1, negative), Experts{0});
}

TEST(PackedOrder, of_fp32_weighs_values_with_cleared_bits) {
  const float x = 1 + 3 * 0x1p-23F;  // two experts: one bit is cleared
  const Routes exact = route(router_of("topk-softmax", 2), fp32_matrix(1, 2, {1, x}).view());
  const Routes packed = route(router_of("topk-softmax-packed", 2), fp32_matrix(1, 2, {1, x}).view());
  const float e = exp_rn(-0x1p-22F);
  EXPECT_EQ(packed.experts, (Experts{1, 0}));
  EXPECT_EQ(packed.weights, (Row{1 / (1 + e), e / (1 + e)}));
  EXPECT_NE(bits(packed.weights), bits(exact.weights));
}

TEST(PackedOrder, of_bf16_is_the_order) {
  std::mt19937 engine(17);
  for (const std::int64_t experts : {2, 7, 64, 129, 512}) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < 40 * experts; ++i) {  // few values, so that most tie
      values.push_back(static_cast<float>(static_cast<int>(engine() % 64) - 32) * 0.125F);
    }
    const TestMatrix matrix(Format::bf16, 40, experts, values);
    for (const std::int64_t k : {std::int64_t{1}, (experts + 1) / 2, experts}) {
      const Routes exact = route(router_of("topk-softmax", k), matrix.view());
      const Routes packed = route(router_of("topk-softmax-packed", k), matrix.view());
      EXPECT_EQ(packed.experts, exact.experts);
      EXPECT_EQ(bits(packed.weights), bits(exact.weights));
    }
  }
}

// A BF16 keeps its value when 16 bits below it are overwritten: every pair of neighbours, both ways round.
TEST(PackedOrder, of_every_bf16_and_its_neighbour_is_the_order) {
  std::vector<float> values;
  for (std::uint32_t code = 0; code < 0xFF7F; ++code) {
    const float x = std::bit_cast<float>(code << 16);
    const float y = std::bit_cast<float>((code + 1) << 16);
    if (!std::isfinite(x) || !std::isfinite(y) || code == 0x8000) continue;
    for (const float v : {x, y, y, x}) values.push_back(v);
  }
  const TestMatrix matrix(Format::bf16, std::ssize(values) / 2, 2, values);
  EXPECT_EQ(experts_of("topk-softmax-packed", 2, matrix), experts_of("topk-softmax", 2, matrix));
}

TEST(PackedOrder, puts_negative_zeros_behind_zeros_and_in_reverse) {
  const TestMatrix row(Format::bf16, 1, 4, {-0.0F, 0, -0.0F, 0});
  EXPECT_EQ(experts_of("topk-softmax", 4, row), (Experts{0, 1, 2, 3}));
  EXPECT_EQ(experts_of("topk-softmax-packed", 4, row), (Experts{1, 3, 2, 0}));
}

TEST(SoftmaxFirst, can_make_equal_what_logits_told_apart) {
  const TestMatrix row = fp32_matrix(1, 2, {0, 0x1p-30F});
  EXPECT_EQ(experts_of("topk-softmax", 1, row), Experts{1});
  EXPECT_EQ(experts_of("softmax-topk-renorm", 1, row), Experts{0});
}

// Where the kept are the same, both start from the same exp(d), for the row's largest is kept. With u = 2^-24,
// topk-softmax adds K of them ((K - 1) u) and divides (u); the other divides by S (u), adds (K - 1) and divides, on
// both sides of the quotient: K + 2. Together 2K + 2, and 1 for products of errors.
TEST(SoftmaxFirst, renormalized_equals_softmax_of_the_kept_within_rounding_but_not_in_bits) {
  std::mt19937 engine(23);
  std::vector<float> values;
  for (int i = 0; i < 2000 * 32; ++i) values.push_back(static_cast<float>(engine() % 20000) * 1e-3F - 10);
  const TestMatrix matrix = fp32_matrix(2000, 32, values);
  for (const std::int64_t k : {1, 2, 8}) {
    const Routes last = route(router_of("topk-softmax", k), matrix.view());
    const Routes first = route(router_of("softmax-topk-renorm", k), matrix.view());
    std::size_t differ = 0;
    double worst = 0;
    for (std::size_t t = 0; t < 2000; ++t) {
      const auto begin = static_cast<std::ptrdiff_t>(t) * k;
      const Experts a(last.experts.begin() + begin, last.experts.begin() + begin + k);
      const Experts b(first.experts.begin() + begin, first.experts.begin() + begin + k);
      if (as_set(a) != as_set(b)) continue;
      for (std::size_t i = t * static_cast<std::size_t>(k); i < (t + 1) * static_cast<std::size_t>(k); ++i) {
        const double x = last.weights[i];
        const double y = first.weights[i];
        differ += x != y;
        worst = std::max(worst, std::fabs(x - y) / x);
      }
    }
    EXPECT_LE(worst, static_cast<double>(2 * k + 3) * 0x1p-24) << k;
    EXPECT_TRUE(k != 8 || differ > 100) << differ;
  }
}

// Properties of every rule, on drawn cases, and equality with the slow way.

constexpr std::uint64_t kCases = kSanitized ? 100 : 400;

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
                  EXPECT_TRUE(same(a, oracle_round_tokens(c.router(), c.token_rounding, logits))) << text;
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
                    for (std::int64_t i = a.token_offsets[t]; i < a.token_offsets[t + 1]; ++i)
                      sum += a.row_weight[static_cast<std::size_t>(a.token_rows[static_cast<std::size_t>(i)])];
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
    EXPECT_TRUE(same(one, oracle_round_tokens(c.router(), c.token_rounding, m.view()))) << rule.name;
    for (const int threads : {0, 2, 3, 7})
      EXPECT_TRUE(same(round_tokens(c.router(), c.token_rounding, m.view(), threads), one))
          << rule.name << ", " << threads;
  }
}

// The weights of rows, and what scores are told apart.

TEST(TokenRoundingWeights, multiplies_weights_by_the_scale_last) {
  Router router = router_of("topk-softmax", 1);
  const TokenRounding token_rounding{.rule = TokenRoundingRule::up, .tile = 5};
  const RoundedTokens plain = round_tokens(router, token_rounding, kSix.view());
  router.scale = 1.1F;
  const RoundedTokens scaled = round_tokens(router, token_rounding, kSix.view());
  EXPECT_EQ(scaled.row_token, plain.row_token);
  for (std::size_t i = 0; i < plain.row_weight.size(); ++i) EXPECT_EQ(scaled.row_weight[i], plain.row_weight[i] * 1.1F);
}

TEST(TokenRoundingWeights, none_is_token_choice_with_its_own_weights) {
  const TestMatrix m = fp32_matrix(40, 6, normal_logits(240, 4));
  for (const RouterVariant& variant : all_router_variants()) {
    Router router = router_of(std::string(variant.name).c_str(), 3);
    router.scale = 0.3F;
    const Routes routes = route(router, m.view());
    const RoundedTokens a =
        round_tokens(router, {.rule = TokenRoundingRule::none, .tile = 0, .renormalize = false}, m.view());
    EXPECT_EQ(a.offsets.back(), 120);
    for (std::int64_t t = 0; t < 40; ++t) {
      std::map<std::int32_t, float> expected;
      for (std::int64_t k = 0; k < 3; ++k) {
        const auto i = static_cast<std::size_t>(t * 3 + k);
        expected[routes.experts[i]] = routes.weights[i];
      }
      std::int64_t at = a.token_offsets[static_cast<std::size_t>(t)];
      for (const auto& [e, weight] : expected) {
        const std::int64_t row = a.token_rows[static_cast<std::size_t>(at++)];
        EXPECT_GE(row, a.offsets[static_cast<std::size_t>(e)]);
        EXPECT_LT(row, a.offsets[static_cast<std::size_t>(e) + 1]);
        EXPECT_EQ(a.row_weight[static_cast<std::size_t>(row)], weight) << variant.name;
      }
      EXPECT_EQ(at, a.token_offsets[static_cast<std::size_t>(t) + 1]);
    }
  }
}

// Expert 1 takes token 0, whose score for it is exp(-200), 0 in FP32, and which no other expert takes.
TEST(TokenRoundingWeights, gives_zero_weights_where_the_sum_of_scores_is_zero) {
  const float none = -200;
  const TestMatrix m = fp32_matrix(4, 4,
                                   {none, none, 0, -10,   //
                                    0, none, none, none,  //
                                    none, none, 0, none,  //
                                    none, none, none, 0});
  const Router router = router_of("topk-softmax", 1);
  const RoundedTokens a = round_tokens(router, {.rule = TokenRoundingRule::expert_choice, .capacity = 1}, m.view());
  EXPECT_EQ(a.row_token, (Ints{1, 0, 2, 3}));
  EXPECT_EQ(a.row_weight, (Floats{1, 0, 1, 1}));
  EXPECT_FALSE(std::signbit(a.row_weight[1]));
  const RoundedTokens raw =
      round_tokens(router, {.rule = TokenRoundingRule::expert_choice, .capacity = 1, .renormalize = false}, m.view());
  EXPECT_EQ(raw.row_weight, (Floats{1, 0, 1, 1}));
}

TEST(TokenRoundingWeights, takes_scores_that_are_all_zero_or_infinite) {
  const float inf = kInf;
  const Router router = router_of("sqrtsoftplus", 1);
  const TestMatrix zero = fp32_matrix(5, 2, Floats(10, -inf));
  const RoundedTokens a = round_tokens(router, {.rule = TokenRoundingRule::nr_s, .tile = 2}, zero.view());
  EXPECT_EQ(a.offsets, (Offsets{0, 4, 4}));
  EXPECT_EQ(a.row_weight, Floats(7, 0));
  const TestMatrix infinite = fp32_matrix(3, 2, {1, 0, inf, 0, 2, 0});
  const RoundedTokens b = round_tokens(router, {.rule = TokenRoundingRule::down, .tile = 2}, infinite.view());
  EXPECT_EQ(tokens_by_expert(b), (Sets{{1, 2}, {}}));  // the infinite score is the best
  EXPECT_TRUE(std::isnan(b.row_weight[0]));            // Inf / Inf
  EXPECT_EQ(b.row_weight[1], 1);
}

// The bias chooses; ranks and weights are those of scores without it.
TEST(TokenRoundingWeights, ranks_without_the_bias) {
  Router router = router_of("sigmoid", 1);
  const Floats bias{10, 0};
  router.bias = bias;
  const RoundedTokens a = round_tokens(router, {.rule = TokenRoundingRule::down, .tile = 4}, kSix.view());
  EXPECT_EQ(a.chosen, (Ints{6, 0}));
  EXPECT_EQ(tokens_by_expert(a), (Sets{{0, 1, 2, 5}, {}}));
}

// "S - 1" sets fill scores apart from chosen ones by arithmetic; what of them is left then? In (-1, -1/2] FP32 numbers
// are 2^-24 apart, BF16 2^-8: scores up to s leave at most s * 256 + 2 levels.
TEST(TokenRoundingWeights, tells_fill_scores_apart_that_become_equal_less_one) {
  EXPECT_EQ(1e-9F - 1.0F, 2e-9F - 1.0F);
  const TestMatrix tiny = fp32_matrix(3, 2, {0, -21, 0, -20, 0, -22});
  const Router router = router_of("topk-softmax", 1);
  const Floats few = router_scores(router, tiny.view());
  EXPECT_EQ(few[1] - 1.0F, few[3] - 1.0F);
  const TokenRounding up{.rule = TokenRoundingRule::expert_choice, .capacity = 1};
  EXPECT_EQ(tokens_by_expert(round_tokens(router, up, tiny.view())), (Sets{{0}, {1}}));

  const std::int64_t experts = 256;
  const TestMatrix m = fp32_matrix(1, experts, normal_logits(experts, 11));
  const Floats scores = router_scores(router, m.view());
  const auto bf16 = [](float x) {
    return decode(Format::bf16, encode(Format::bf16, x, Rounding::nearest_even, Overflow::non_saturate));
  };
  std::set<double> levels;
  for (const float s : scores) levels.insert(bf16(static_cast<float>(bf16(s)) - 1.0F));
  const float largest = *std::max_element(scores.begin(), scores.end());
  EXPECT_LE(static_cast<double>(levels.size()), largest * 256.0 + 2);
  EXPECT_LT(levels.size(), 20U);
  EXPECT_GT(std::set<float>(scores.begin(), scores.end()).size(), 250U);
}

}  // namespace
}  // namespace mxcheck
