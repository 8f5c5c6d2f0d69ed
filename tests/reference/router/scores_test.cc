// Scores of rows and weights of those that are kept, against the slow way of tests/reference/router/oracle.h and by
// hand.

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "reference/router/parts.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/reference/router/oracle.h"

namespace mxcheck {
namespace {

using namespace router_parts;
using test::bits;
using test::router_of;
using test::Row;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Scores, are_those_of_the_oracle) {
  const std::vector<Row> rows{{0},       {1, 2, 3},          {-100, 88, 0.5F}, {kInf, 1, kInf}, {-kInf, -kInf},
                              {kNaN, 1}, {kNaN, kNaN, kNaN}, {1e30F, -1e30F},  {-0.0F, 0.0F}};
  for (const RouterScore score :
       {RouterScore::logits, RouterScore::softmax, RouterScore::sigmoid, RouterScore::sqrtsoftplus}) {
    for (const Row& row : rows) {
      Row scores(row.size(), -7);
      scores_of(score, row, scores);
      EXPECT_EQ(bits(scores), bits(test::scores_row(score, row))) << static_cast<int>(score);
    }
  }
}

TEST(Scores, by_hand) {
  EXPECT_EQ(sigmoid(0), 0.5F);
  EXPECT_EQ(sigmoid(kInf), 1);
  EXPECT_EQ(sigmoid(-kInf), 0);
  EXPECT_EQ(sqrtsoftplus(-kInf), 0);
  EXPECT_EQ(sqrtsoftplus(1e6F), 1e3F);
  Row scores(4);
  float log_sum = 0;
  softmax(Row{2, 2, 2, 2}, scores, &log_sum);
  EXPECT_EQ(scores, (Row{0.25F, 0.25F, 0.25F, 0.25F}));
  EXPECT_EQ(log_sum, 2 + 0x1.62e43p+0F);  // ln 4
}

TEST(KeptWeights, divide_as_the_variant_says) {
  const Row kept{0.5F, 0.25F};
  Row weights(2);
  EXPECT_EQ(kept_weights(router_of("softmax-topk", 2), kept, weights), 1);
  EXPECT_EQ(weights, kept);
  EXPECT_EQ(kept_weights(router_of("softmax-topk-renorm", 2), kept, weights), 0.75F);
  EXPECT_EQ(weights, (Row{0.5F / 0.75F, 0.25F / 0.75F}));
  EXPECT_EQ(kept_weights(router_of("sigmoid", 1), std::span(kept).first(1), std::span(weights).first(1)), 1);
  EXPECT_EQ(weights[0], 0.5F);  // top_k of 1: raw
  const Row nothing{0, 0};
  EXPECT_EQ(kept_weights(router_of("sigmoid", 2), nothing, weights), 1e-20F);
  EXPECT_EQ(kept_weights(router_of("softmax-topk-renorm", 2), nothing, weights), 0);
  EXPECT_EQ(weights, nothing);
  const Row small{1e-28F, 1e-20F};  // 1e-28 is lost in a sum that starts at 1e-20, and so is its order
  EXPECT_EQ(kept_weights(router_of("sigmoid-tiny-first", 2), small, weights), 1e-20F + 1e-28F + 1e-20F);
  EXPECT_EQ(kept_weights(router_of("topk-softmax", 2), Row{3, 3}, weights), 1);
  EXPECT_EQ(weights, (Row{0.5F, 0.5F}));
}

TEST(RouterScores, are_scores_of_every_row) {
  const Row values{1, 2, 3, kNaN, 0, -1};
  const test::TestMatrix m = test::fp32_matrix(2, 3, values);
  for (const auto* name : {"topk-softmax", "sigmoid", "sqrtsoftplus-raw"}) {
    const Router router = router_of(name, 1, NanLogits::last);
    Row expected = test::scores_row(router.variant->score, {1, 2, 3});
    const Row second = test::scores_row(router.variant->score, {kNaN, 0, -1});
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(bits(router_scores(router, m.view())), bits(expected)) << name;
  }
}

}  // namespace
}  // namespace mxcheck
