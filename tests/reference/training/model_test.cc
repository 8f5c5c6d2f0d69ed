// The list of parameters against the table of docs/training.md, and configurations that cannot be.

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "reference/training/model.h"
#include "reference/training/token_loss.h"
#include "tests/reference/training/plain.h"
#include "tests/reference/training/test_training.h"

namespace mxcheck {
namespace {

TEST(Parameters, are_those_of_the_table) {
  const ModelShape m{.layers = 2, .width = 64, .heads = 2, .experts = 8, .inner = 32, .top_k = 2, .length = 64};
  const std::vector<ParameterSpec> all = parameters_of(m);
  ASSERT_EQ(all.size(), 17U);
  EXPECT_EQ(all.front().name, "embedding");
  EXPECT_EQ(all.front().size(), 256 * 64);
  EXPECT_EQ(all.front().deviation, 0.125F);
  const char* const names[] = {"attention_norm", "qkv", "attention_out", "moe_norm", "router", "w1", "w2"};
  const std::int64_t sizes[] = {64, 3 * 64 * 64, 64 * 64, 64, 8 * 64, 8 * 64 * 64, 8 * 32 * 64};
  // 1 / 8, times 1 / 2 for two layers; w2 sums over n = 32.
  const float deviations[] = {0, 0.125F, 0.0625F, 0, 0.125F, 0.125F, static_cast<float>(std::sqrt(1 / 32.0)) * 0.5F};
  for (std::size_t l = 0; l < 2; ++l) {
    for (std::size_t i = 0; i < 7; ++i) {
      const ParameterSpec& p = all[1 + 7 * l + i];
      EXPECT_EQ(p.name, "layers." + std::to_string(l) + "." + names[i]);
      EXPECT_EQ(p.size(), sizes[i]) << p.name;
      EXPECT_EQ(p.deviation, deviations[i]) << p.name;
      EXPECT_EQ(p.kind, sizes[i] == 64 ? ParameterKind::gain : ParameterKind::matrix) << p.name;
    }
  }
  EXPECT_EQ(all[15].name, "final_norm");
  EXPECT_EQ(all[16].name, "output");
  EXPECT_EQ(parameter_count(m), 165184);
}

void expect_refused(const char* what, const std::function<void(TrainingConfig&)>& change) {
  TrainingConfig config = test_config("mxfp8");
  check(config);
  change(config);
  try {
    check(config);
    ADD_FAILURE() << what << " is not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
  }
}

TEST(TrainingConfigCheck, says_what_cannot_be) {
  expect_refused("layers is 0", [](auto& c) { c.model.layers = 0; });
  expect_refused("layers are 65537", [](auto& c) { c.model.layers = (1 << 16) + 1; });
  expect_refused("width is -1", [](auto& c) { c.model.width = -1; });
  expect_refused("an even number", [](auto& c) { c.model.heads = 32; });  // of one column each
  expect_refused("an even number", [](auto& c) { c.model.heads = 5; });
  expect_refused("top_k is 5", [](auto& c) { c.model.top_k = 5; });
  expect_refused("length is 16777217", [](auto& c) { c.model.length = (1 << 24) + 1; });
  expect_refused("batch is 0", [](auto& c) { c.batch = 0; });
  expect_refused("tokens a step", [](auto& c) { c.batch = 1 << 23; });
  expect_refused("steps is 0", [](auto& c) { c.steps = 0; });
  expect_refused("perturb is -3", [](auto& c) { c.perturb = -3; });
  expect_refused("token rounding by 'expert-choice'", [](auto& c) { c.rounding = TokenRoundingRule::expert_choice; });
  expect_refused("tile is 0", [](auto& c) { c.rounding = TokenRoundingRule::nr_f, c.tile = 0; });
  expect_refused("balance", [](auto& c) { c.balance = std::nanf(""); });
  expect_refused("peak_rate", [](auto& c) { c.optimizer.peak_rate = std::numeric_limits<float>::infinity(); });
  expect_refused("last_rate", [](auto& c) { c.optimizer.last_rate = 1; });
  expect_refused("beta1", [](auto& c) { c.optimizer.beta1 = 1; });
  expect_refused("beta2", [](auto& c) { c.optimizer.beta2 = -0.5F; });
  expect_refused("epsilon", [](auto& c) { c.optimizer.epsilon = 0; });
  expect_refused("decay", [](auto& c) { c.optimizer.decay = -1; });
  expect_refused("clip", [](auto& c) { c.optimizer.clip = 0; });
  expect_refused("warm_up", [](auto& c) { c.optimizer.warm_up = -1; });
  expect_refused("warm_up is 16777217", [](auto& c) { c.optimizer.warm_up = (1 << 24) + 1; });
  expect_refused("fp32 or bf16", [](auto& c) { c.optimizer.moments = Format::e4m3; });
  expect_refused("none such", [](auto& c) { c.recipe.gemms[0].a.scales = "none such"; });
}

using namespace plain;

TEST(TokenLoss, losses_and_gradients_are_those_of_the_definition) {
  constexpr std::size_t kTokens = 11;
  const std::vector<float> z = values(kTokens * 256, 1, 9);
  std::vector<std::uint8_t> targets;
  for (std::size_t t = 0; t < kTokens; ++t) targets.push_back(static_cast<std::uint8_t>(t * 25));
  const TokenLoss loss = token_loss(z, targets, 1);
  std::vector<float> losses;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const auto row = z.begin() + static_cast<std::ptrdiff_t>(t * 256);
    const float largest = *std::max_element(row, row + 256);
    std::vector<float> e;
    for (std::size_t i = 0; i < 256; ++i) e.push_back(exp_rn(sub(row[static_cast<std::ptrdiff_t>(i)], largest)));
    const float sum = pairwise(e);
    losses.push_back(sub(add(log_rn(sum), largest), row[targets[t]]));
    for (std::size_t i = 0; i < 256; ++i) {
      const float error = sub(div(e[i], sum), i == targets[t] ? 1.0F : 0.0F);
      ASSERT_EQ(loss.d_logits[t * 256 + i], bf16(mul(error, div(1, kTokens)))) << t << ' ' << i;
    }
  }
  EXPECT_EQ(loss.loss, div(pairwise(losses), kTokens));
}

TEST(TokenLoss, threads_change_nothing) {
  const std::vector<float> z = values(999 * 256, 1, 9);
  const std::vector<std::uint8_t> targets(999, 5);
  const TokenLoss one = token_loss(z, targets, 1), three = token_loss(z, targets, 3);
  EXPECT_EQ(one.loss, three.loss);
  EXPECT_EQ(one.d_logits, three.d_logits);
}

TEST(TokenLoss, what_is_not_finite_makes_its_row_and_the_loss_nan) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t place : {0U, 100U, 255U}) {
      std::vector<float> z = values(2 * 256, 1, 4);
      z[256 + place] = bad;
      const TokenLoss loss = token_loss(z, std::vector<std::uint8_t>{1, 2}, 1);
      EXPECT_TRUE(std::isnan(loss.loss));
      EXPECT_EQ(loss.d_logits[256], 0x7FFF);
      EXPECT_EQ(loss.d_logits[511], 0x7FFF);
      EXPECT_NE(loss.d_logits[0], 0x7FFF);
    }
  }
  std::vector<float> z(256, 0.0F);
  z[3] = -std::numeric_limits<float>::infinity();  // a token that cannot be, and is the target
  EXPECT_EQ(token_loss(z, std::vector<std::uint8_t>{3}, 1).loss, std::numeric_limits<float>::infinity());
}

TEST(Embedding, rows_are_those_of_the_tokens) {
  const std::vector<std::uint16_t> w = words(256 * 3, 1);
  const std::vector<float> x = embed(w, std::vector<std::uint8_t>{255, 0, 7}, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(x[i], wide(w[765 + i]));
    EXPECT_EQ(x[3 + i], wide(w[i]));
    EXPECT_EQ(x[6 + i], wide(w[21 + i]));
  }
}

// 2^24 + 1 is 2^24 in FP32, and 1 + 1 + 2^24 is not.
TEST(Embedding, gradients_are_summed_in_the_order_of_tokens) {
  const std::vector<std::uint8_t> tokens{9, 4, 9, 4, 9, 4};
  const std::vector<float> dx{0x1p24F, 1, 1, 1, 1, 0x1p24F};
  for (const int threads : {1, 3}) {
    const std::vector<float> dw = embed_backward(dx, tokens, 1, threads);
    EXPECT_EQ(dw[9], 0x1p24F);
    EXPECT_EQ(dw[4], 0x1p24F + 2);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(dw[0]), 0U);
  }
  EXPECT_EQ(
      std::bit_cast<std::uint32_t>(embed_backward(std::vector<float>{-0.0F}, std::vector<std::uint8_t>{1}, 1, 1)[1]),
      0U);
}

TEST(Embedding, sizes_that_do_not_agree_are_refused) {
  EXPECT_THROW(embed(std::vector<std::uint16_t>(255), std::vector<std::uint8_t>{1}, 1), Error);
  EXPECT_THROW(embed_backward(std::vector<float>(3), std::vector<std::uint8_t>{1}, 2, 1), Error);
  EXPECT_THROW(token_loss(std::vector<float>(256), std::vector<std::uint8_t>{1, 2}, 1), Error);
  EXPECT_THROW(token_loss({}, {}, 1), Error);
}

}  // namespace
}  // namespace mxcheck
