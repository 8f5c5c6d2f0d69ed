#include "trainer/compare/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/made_up_runs.h"

namespace mxcheck {
namespace {

using test::add_arm;
using test::sensitive_experiment;

const ArmResult& arm_named(const ParityComparison& c, const std::string& name) {
  for (const ArmResult& arm : c.arms) {
    if (arm.name == name) return arm;
  }
  throw Error(ErrorKind::internal, "no arm " + name);
}

ParityComparison with_arm(double gap, double noise) {
  std::vector<NamedRun> runs = sensitive_experiment();
  add_arm(runs, {.recipe = "mxfp8"}, gap, noise, 6);
  return compare_runs(runs, {});
}

TEST(Comparison, comes_to_each_verdict_and_its_exit_code) {
  struct Case {
    double gap;
    double noise;
    ArmVerdict verdict;
    int code;
  };
  for (const Case& c : {Case{0.0001, 2e-4, ArmVerdict::equivalent, 0}, Case{-0.0009, 3e-4, ArmVerdict::non_inferior, 0},
                        Case{0.0030, 2e-4, ArmVerdict::inferior, 1}, Case{-0.0030, 2e-4, ArmVerdict::improved, 1},
                        Case{0.0010, 2e-4, ArmVerdict::inconclusive, 4}, Case{0, 5e-3, ArmVerdict::inconclusive, 4}}) {
    const ParityComparison result = with_arm(c.gap, c.noise);
    const ArmResult& arm = arm_named(result, "mxfp8");
    EXPECT_EQ(arm.judgement.verdict, c.verdict) << c.gap << ": " << arm.judgement.reason;
    EXPECT_EQ(exit_code(result), c.code) << c.gap;
    EXPECT_EQ(arm_named(result, "bf16 + one ulp").judgement.verdict, ArmVerdict::equivalent);
    EXPECT_EQ(arm_named(result, "broken").judgement.verdict, ArmVerdict::inferior);
  }
}

TEST(Comparison, judges_at_the_outer_margin_beside) {
  const ParityComparison c = with_arm(0.0017, 2e-4);
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.verdict, ArmVerdict::inferior);
  EXPECT_EQ(arm_named(c, "mxfp8").outer.verdict, ArmVerdict::equivalent);
  EXPECT_EQ(exit_code(c), 1);
}

TEST(Comparison, of_a_diverged_run_is_a_failure_and_lists_it) {
  std::vector<NamedRun> runs = sensitive_experiment();
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 6);
  runs.back().record.end = RunEnd::diverged;
  ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.verdict, ArmVerdict::diverged);
  EXPECT_EQ(exit_code(c), 1);
  EXPECT_EQ(c.runs.size(), runs.size());
  runs.back().record.end = RunEnd::finished;
  runs.back().record.evaluations.back().loss_bf16 = test::bits(std::numeric_limits<double>::quiet_NaN());
  c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.verdict, ArmVerdict::diverged);
  EXPECT_EQ(arm_named(c, "mxfp8").pairs.size(), 6U);
  EXPECT_EQ(arm_named(c, "mxfp8").evidence.interval.pairs, 5);
  runs.front().record.end = RunEnd::diverged;  // and one of BF16
  EXPECT_EQ(exit_code(compare_runs(runs, {})), 4);
}

TEST(Comparison, without_control_or_repeats_or_enough_pairs_is_inconclusive) {
  for (const char* without : {"broken", "bf16 + one ulp"}) {
    std::vector<NamedRun> runs = sensitive_experiment();
    add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 6);
    std::erase_if(runs, [&](const NamedRun& r) { return arm_name(r.record.config) == without; });
    EXPECT_EQ(exit_code(compare_runs(runs, {})), 4) << without;
  }
  std::vector<NamedRun> runs = sensitive_experiment(4);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 1e-4, 4);
  EXPECT_EQ(exit_code(compare_runs(runs, {})), 4);
}

TEST(Comparison, with_a_control_that_is_not_rejected_is_inconclusive) {
  std::vector<NamedRun> runs;
  add_arm(runs, {.recipe = "bf16"}, 0, 0, 6);
  add_arm(runs, {.recipe = "bf16", .perturb = 1}, 0, 2e-4, 6);
  add_arm(runs, {.recipe = "broken"}, 0.0005, 2e-4, 6);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 6);
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(exit_code(c), 4);
  EXPECT_NE(arm_named(c, "mxfp8").judgement.reason.find("negative control: not rejected"), std::string::npos);
}

TEST(Comparison, of_an_arm_without_some_seeds_is_inconclusive) {
  std::vector<NamedRun> runs = sensitive_experiment(6);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 5);
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.verdict, ArmVerdict::inconclusive);
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.reason, "1 seed of BF16 not run");
}

TEST(Comparison, a_failure_outweighs_what_is_inconclusive) {
  std::vector<NamedRun> runs = sensitive_experiment();
  add_arm(runs, {.recipe = "mxfp8"}, 0, 5e-3, 6);
  add_arm(runs, {.recipe = "mxfp8", .rounding = TokenRoundingRule::nr_f}, 0.01, 1e-4, 6);
  EXPECT_EQ(exit_code(compare_runs(runs, {})), 1);
}

TEST(Comparison, of_nothing_that_is_judged_is_inconclusive) {
  EXPECT_EQ(exit_code(compare_runs(sensitive_experiment(), {})), 4);
}

TEST(Comparison, reports_noise_own_recipe_and_experiment) {
  const ParityComparison c = with_arm(0.0001, 2e-4);
  EXPECT_EQ(c.tokens, 4 * 64 * 400);
  EXPECT_EQ(c.validation_tokens, 1024 * 64);
  EXPECT_EQ(c.parameters, parameter_count(c.config.model));
  std::vector<double> endpoints;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) endpoints.push_back(test::made_up_loss(400, seed));
  const PairedInterval i = paired_interval(endpoints, 0.05);
  // The endpoint is three evaluations of the same noise; 2^-24 is FP32's rounding of each.
  EXPECT_NEAR(c.baseline_deviation, i.deviation / i.mean, 0x1p-24 * 2);
  const ArmResult& arm = arm_named(c, "mxfp8");
  EXPECT_NEAR(arm.own.mean - arm.evidence.interval.mean, 0.001, 1e-5);  // made_up_run's 1.001
  EXPECT_GT(arm.correlation, 0.5);
  EXPECT_EQ(arm.scales, "e4m3, scales rceil");
  EXPECT_EQ(arm.pairs_needed, kLeastPairs);  // fewer would do for so little noise
  EXPECT_LT(arm.visible_gap, 0.001);
  EXPECT_EQ(arm.pairs[2].seed, 3U);
  EXPECT_NEAR(arm.pairs[2].difference, test::spread(0.0001, 2e-4, 3), 1e-6);
}

TEST(Comparison, lists_runs_by_their_start) {
  std::vector<NamedRun> runs = sensitive_experiment(5);
  runs.back().record.started = "2020";
  EXPECT_EQ(compare_runs(runs, {}).runs.front().file, runs.back().file);
}

TEST(Comparison, refuses_options_that_cannot_be) {
  const std::vector<NamedRun> runs = sensitive_experiment(2);
  for (const ComparisonOptions& o :
       {ComparisonOptions{.margin = 0}, ComparisonOptions{.margin = 0.003}, ComparisonOptions{.outer_margin = 1},
        ComparisonOptions{.margin = std::numeric_limits<double>::quiet_NaN()}, ComparisonOptions{.alpha = 0},
        ComparisonOptions{.alpha = 0.6}, ComparisonOptions{.power = 1}, ComparisonOptions{.spike = -1}})
    EXPECT_THROW((void)compare_runs(runs, o), Error);
}

}  // namespace
}  // namespace mxcheck
