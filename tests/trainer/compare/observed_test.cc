#include "trainer/compare/observed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/made_up_runs.h"

namespace mxcheck {
namespace {

std::vector<NamedRun> runs_of(const std::string& recipe) {
  std::vector<NamedRun> runs;
  test::add_arm(runs, {.recipe = recipe}, 0, 0, 2);
  return runs;
}

ObservedArm observed(const std::vector<NamedRun>& runs) {
  Arm arm;
  for (const NamedRun& run : runs) arm.runs.push_back(&run);
  return observed_of(arm);
}

TEST(Observed, routes_are_shares_by_step_and_by_layer_at_the_last) {
  const ObservedArm o = observed(runs_of("mxfp8"));
  ASSERT_EQ(o.equal_routes.size(), 20U);
  EXPECT_EQ(o.equal_routes.front().step, 20);
  EXPECT_NEAR(o.equal_routes.front().value, (0.990 + 0.978) / 2, 1e-12);
  ASSERT_EQ(o.equal_routes_by_layer.size(), 2U);
  EXPECT_NEAR(o.equal_routes_by_layer[1], 0.940, 1e-12);
}

TEST(Observed, entropy_is_one_for_even_loads_and_zero_for_one_expert) {
  std::vector<NamedRun> runs = runs_of("bf16");
  runs.resize(1);
  RunRecord& r = runs.front().record;
  r.observations.resize(3);
  for (LayerObservation& layer : r.observations[0].layers) layer.expert_loads = {8, 8, 8, 8};
  for (LayerObservation& layer : r.observations[1].layers) layer.expert_loads = {0, 32, 0, 0};
  for (LayerObservation& layer : r.observations[2].layers) layer.expert_loads = {0, 8, 8, 16};
  const ObservedArm o = observed(runs);
  EXPECT_NEAR(o.load_entropy[0].value, 1, 1e-12);
  EXPECT_EQ(o.load_entropy[1].value, 0);
  EXPECT_NEAR(o.load_entropy[2].value, 0.75, 1e-12);  // (1/2 + 2/4 * 2) log 2 / log 4
  EXPECT_EQ(o.loads[1], (std::vector<double>{0.5, 0.25, 0.25, 0}));
}

TEST(Observed, shares_of_operands_are_of_all_layers_and_runs) {
  const ObservedArm o = observed(runs_of("mxfp8"));
  ASSERT_EQ(o.operands.size(), 6U);
  EXPECT_EQ(o.operands[0].operand, "d_down.a");
  EXPECT_EQ(o.operands[5].operand, "up.a");
  EXPECT_NEAR(o.operands[5].flushed.back().value, 100.0 / (1 << 20), 1e-15);
  EXPECT_NEAR(o.operands[5].saturated.back().value, 100.0 / (1 << 20), 1e-15);
}

TEST(Observed, is_empty_where_nothing_was_observed) {
  std::vector<NamedRun> runs = runs_of("mxfp8");
  for (NamedRun& run : runs) {
    run.record.observations.clear();
    run.record.evaluations.clear();
  }
  const ObservedArm o = observed(runs);
  EXPECT_TRUE(o.operands.empty() && o.loads.empty() && o.equal_routes.empty() && o.load_entropy.empty());
}

}  // namespace
}  // namespace mxcheck
