// The list of parameters against the table of docs/training.md, and configurations that cannot be.

#include "reference/training/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "numerics/error.h"
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
  expect_refused("width is -1", [](auto& c) { c.model.width = -1; });
  expect_refused("an even number", [](auto& c) { c.model.heads = 32; });  // of one column each
  expect_refused("an even number", [](auto& c) { c.model.heads = 5; });
  expect_refused("top_k is 5", [](auto& c) { c.model.top_k = 5; });
  expect_refused("length is 16777217", [](auto& c) { c.model.length = (1 << 24) + 1; });
  expect_refused("batch is 0", [](auto& c) { c.batch = 0; });
  expect_refused("tokens a step", [](auto& c) { c.batch = 1 << 23; });
  expect_refused("steps is 0", [](auto& c) { c.steps = 0; });
  expect_refused("perturb is -2", [](auto& c) { c.perturb = -2; });
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

}  // namespace
}  // namespace mxcheck
