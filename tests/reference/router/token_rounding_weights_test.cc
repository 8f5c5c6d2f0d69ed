// The weights of rows, and what scores are told apart.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "reference/router/token_rounding.h"
#include "tests/reference/router/token_rounding_cases.h"

namespace mxcheck {
namespace {

using namespace test;

TEST(TokenRoundingWeights, multiplies_weights_by_the_scale_last) {
  Router router = router_of("topk-softmax", 1);
  const TokenRounding token_rounding{.rule = TokenRoundingRule::up, .tile = 5};
  const RoundedTokens plain = round_tokens(router, token_rounding, kSix.view());
  router.scale = 1.1F;
  const RoundedTokens scaled = round_tokens(router, token_rounding, kSix.view());
  EXPECT_EQ(scaled.row_token, plain.row_token);
  for (std::size_t i = 0; i < plain.row_weight.size(); ++i) {
    EXPECT_EQ(scaled.row_weight[i], plain.row_weight[i] * 1.1F);
  }
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
  const float inf = std::numeric_limits<float>::infinity();
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
