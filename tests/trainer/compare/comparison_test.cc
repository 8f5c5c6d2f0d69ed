// Comparisons of runs, and what they report beside the verdict: spikes, curves, routes and operands.

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/error.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/trainer/made_up_runs.h"
#include "trainer/compare/comparison.h"
#include "trainer/compare/interval.h"
#include "trainer/compare/observed.h"
#include "trainer/compare/trajectory.h"
#include "trainer/compare/verdict.h"

namespace mxcheck {
namespace {

using test::add_arm;
using test::bits;
using test::branches;
using test::made_up_branch;
using test::made_up_run;
using test::made_up_trunk;
using test::sensitive_experiment;
using test::several_branch_points;

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

TEST(Comparison, judges_at_the_inner_margin_beside) {
  const ParityComparison c = with_arm(0.0007, 1e-4);
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.verdict, ArmVerdict::equivalent);
  EXPECT_EQ(arm_named(c, "mxfp8").inner.verdict, ArmVerdict::inferior);
  EXPECT_EQ(exit_code(c), 0);
  EXPECT_EQ(arm_named(with_arm(0, 1e-4), "mxfp8").inner.verdict, ArmVerdict::equivalent);
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
    std::erase_if(runs, [&](const NamedRun& r) { return arm_name(r.record) == without; });
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

TEST(Comparison, of_a_margin_below_the_usual_inner_one_has_no_other) {
  std::vector<NamedRun> runs = sensitive_experiment();
  const ParityComparison c = compare_runs(runs, {.margin = 0.0004});
  EXPECT_EQ(c.options.inner_margin, 0.0004);
  EXPECT_EQ(compare_runs(runs, {}).options.inner_margin, 0.0005);
}

// The worst seed left out of all arms, and kept of BF16.
TEST(Comparison, of_arms_that_all_lack_a_seed_of_bf16_is_inconclusive) {
  std::vector<NamedRun> runs = sensitive_experiment(6);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 6);
  std::erase_if(runs, [](const NamedRun& run) {
    const TrainingConfig& c = run.record.config;
    return c.seed == 4 && (c.recipe.name != "bf16" || c.perturb != 0);
  });
  EXPECT_EQ(arm_named(compare_runs(runs, {}), "mxfp8").judgement.reason, "1 seed of the experiment not run");
}

TEST(Comparison, of_an_arm_without_some_seeds_is_inconclusive) {
  std::vector<NamedRun> runs = sensitive_experiment(6);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 5);
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.verdict, ArmVerdict::inconclusive);
  EXPECT_EQ(arm_named(c, "mxfp8").judgement.reason, "1 seed of the experiment not run");
}

// The one that is worse than the others, and would have made the arm inferior.
TEST(Comparison, finds_the_seed_that_an_arm_of_a_branch_point_left_out) {
  std::vector<NamedRun> runs = branches(0.0002);
  std::erase_if(runs, [](const NamedRun& r) { return r.file == "mxfp8 from 50 %_4.h5"; });
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8 from 50 %").evidence.interval.pairs, 5);
  EXPECT_EQ(arm_named(c, "mxfp8 from 50 %").judgement.verdict, ArmVerdict::inconclusive);
  EXPECT_EQ(arm_named(c, "mxfp8 from 50 %").judgement.reason, "1 seed of the experiment not run");
}

TEST(Comparison, asks_a_branch_for_no_seed_that_no_arm_of_its_branch_point_has) {
  std::vector<NamedRun> runs = branches(0.0002);
  for (std::uint64_t seed = 7; seed <= 20; ++seed) {
    runs.push_back(made_up_trunk(seed));
    NamedRun moved = made_up_trunk(seed);  // A/A from scratch
    moved.record.config.perturb = kPerturbAll;
    moved.file = "moved_" + std::to_string(seed);
    runs.push_back(moved);
  }
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8 from 50 %").evidence.missing, 0);
  EXPECT_EQ(arm_named(c, "mxfp8 from 50 %").judgement.verdict, ArmVerdict::equivalent);
}

TEST(Comparison, asks_an_arm_from_scratch_for_seeds_that_are_no_trunks_alone) {
  std::vector<NamedRun> runs = sensitive_experiment(6);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 6);
  const NamedRun seven = made_up_trunk(7), eight = made_up_trunk(8);
  for (NamedRun& run : runs) {
    run.record.training_sha256 = seven.record.training_sha256;
    run.record.validation_sha256 = seven.record.validation_sha256;
  }
  runs.push_back(seven), runs.push_back(eight);
  EXPECT_EQ(arm_named(compare_runs(runs, {}), "mxfp8").evidence.missing, 2);
  for (const NamedRun* trunk : {&seven, &eight}) runs.push_back(made_up_branch(*trunk, {.recipe = "mxfp8"}, 200, 1e-4));
  EXPECT_EQ(arm_named(compare_runs(runs, {}), "mxfp8").evidence.missing, 0);
  EXPECT_EQ(arm_named(compare_runs(runs, {}), "mxfp8").judgement.verdict, ArmVerdict::equivalent);
  std::vector<NamedRun> alone;
  add_arm(alone, {.recipe = "bf16"}, 0, 0, 6);
  add_arm(alone, {.recipe = "mxfp8"}, 0, 2e-4, 5);
  EXPECT_EQ(arm_named(compare_runs(alone, {}), "mxfp8").evidence.missing, 1);
}

TEST(Comparison, takes_a_control_with_fewer_seeds) {
  std::vector<NamedRun> runs = sensitive_experiment(6);
  add_arm(runs, {.recipe = "mxfp8"}, 0, 2e-4, 6);
  std::erase_if(runs,
                [](const NamedRun& r) { return r.record.config.recipe.name == "broken" && r.record.config.seed > 3; });
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "broken").judgement.verdict, ArmVerdict::inferior);
  EXPECT_EQ(exit_code(c), 0);
}

TEST(Comparison, a_failure_outweighs_what_is_inconclusive) {
  std::vector<NamedRun> runs = sensitive_experiment();
  add_arm(runs, {.recipe = "mxfp8"}, 0, 5e-3, 6);
  add_arm(runs, {.recipe = "mxfp8", .rounding = TokenRoundingRule::nr_f}, 0.01, 1e-4, 6);
  EXPECT_EQ(exit_code(compare_runs(runs, {})), 1);
}

TEST(Comparison, pairs_branches_with_their_trunks_gone_on_with) {
  for (const auto& [gap, verdict] : {std::pair(0.0002, ArmVerdict::equivalent), {0.003, ArmVerdict::inferior}}) {
    const ParityComparison c = compare_runs(branches(gap), {});
    const ArmResult& arm = arm_named(c, "mxfp8 from 50 %");
    EXPECT_EQ(arm.judgement.verdict, verdict) << arm.judgement.reason;
    EXPECT_EQ(arm.branch_step, 200);
    EXPECT_NEAR(arm.evidence.interval.mean, gap, 2e-4);
    EXPECT_EQ(arm.checkpoints.back().step, 400);
    EXPECT_GE(arm.checkpoints.front().step, 200);
    EXPECT_NEAR(arm.training.mean, 0, 1e-12);  // which the made-up branch has of its trunk
    EXPECT_EQ(c.sensitivities.size(), 1U);
    EXPECT_TRUE(c.sensitivities.contains(200));
  }
}

// A/A and the control of one branch point, or of runs from scratch, are no conditions that another has met.
TEST(Comparison, asks_for_sensitivity_at_each_branch_point) {
  std::vector<NamedRun> runs = branches(0.0002);
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    runs.push_back(made_up_branch(made_up_trunk(seed), {.recipe = "mxfp8"}, 300, test::spread(0, 1e-4, seed)));
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "mxfp8 from 50 %").judgement.verdict, ArmVerdict::equivalent);
  EXPECT_EQ(arm_named(c, "mxfp8 from 75 %").judgement.verdict, ArmVerdict::inconclusive);
  EXPECT_EQ(arm_named(c, "mxfp8 from 75 %").judgement.reason, "no A/A runs; no negative control");
  EXPECT_EQ(exit_code(c), 4);
}

TEST(Comparison, refuses_branches_of_other_trunks_steps_and_data) {
  const auto refused = [](const std::string& words, const std::function<void(NamedRun&)>& change) {
    std::vector<NamedRun> runs = branches(0.0002);
    change(runs.back());
    try {
      compare_runs(runs, {});
      ADD_FAILURE() << "not refused: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input);
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  };
  refused("branches off from a run with SHA-256", [](NamedRun& r) { r.record.branch->trunk[0] ^= 1; });
  refused("have the digest", [](NamedRun& r) { r.record.branch->weights ^= 1; });
  refused("finished with 399 steps", [](NamedRun& r) { r.record.branch->step -= 1; });
  refused("training_sha256 differs", [](NamedRun& r) { r.record.training_sha256[0] = '1'; });
  refused("evaluations are after other steps", [](NamedRun& r) { r.record.evaluations.pop_back(); });
  refused("no run of BF16 has its seed", [](NamedRun& r) { r.record.config.seed = 9; });
}

TEST(Comparison, ranks_judged_arms_by_mean_difference_at_each_branch_point) {
  std::vector<NamedRun> runs = several_branch_points(0.002);
  ParityComparison c = compare_runs(runs, {});
  std::vector<std::string> names;
  for (const std::size_t i : ranking(c)) names.push_back(c.arms[i].name);
  EXPECT_EQ(names, (std::vector<std::string>{"mxfp8_floor", "mxfp8", "mxfp8 from 50 %", "mxfp8 from 75 %"}));
  for (ArmResult& arm : c.arms) {
    if (arm.name == "mxfp8_floor") arm.evidence.interval.mean = std::numeric_limits<double>::quiet_NaN();
  }
  EXPECT_EQ(c.arms[ranking(c)[1]].name, "mxfp8_floor");  // after what has a mean
}

TEST(Comparison, counts_no_graded_control_as_judged) {
  std::vector<NamedRun> runs = several_branch_points(0.002);
  const ParityComparison judged = compare_runs(runs, {});
  ASSERT_EQ(exit_code(judged), 1);  // mxfp8 is inferior
  const ParityComparison c = compare_runs(runs, {.graded = {"mxfp8"}});
  ASSERT_EQ(c.arms.size(), judged.arms.size());
  std::vector<std::string> names;
  for (const std::size_t i : ranking(c)) names.push_back(c.arms[i].name);
  EXPECT_EQ(names, (std::vector<std::string>{"mxfp8_floor", "mxfp8", "mxfp8 from 50 %", "mxfp8 from 75 %"}));
  for (std::size_t i = 0; i < c.arms.size(); ++i) {
    const bool is_graded = c.arms[i].recipe == "mxfp8";
    EXPECT_EQ(c.arms[i].role, is_graded ? ArmRole::graded : judged.arms[i].role);
    EXPECT_EQ(c.arms[i].judgement.verdict, judged.arms[i].judgement.verdict) << c.arms[i].name;
  }
  EXPECT_NE(exit_code(c), 1);
  EXPECT_EQ(exit_code(compare_runs(runs, {.graded = {"mxfp8", "mxfp8_floor"}})), 4);  // nothing is judged
  for (const char* recipe : {"mxfp4", "broken", "bf16"}) {
    try {
      compare_runs(runs, {.graded = {recipe}});
      ADD_FAILURE() << recipe;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(e.what()).find("those that are: mxfp8, mxfp8_floor"), std::string::npos) << e.what();
    }
  }
}

TEST(Comparison, beside_another_has_what_both_have) {
  const ParityComparison c = compare_runs(several_branch_points(0.002), {});
  const ParityComparison other = compare_runs(branches(0.0002), {});  // mxfp8 from 50 % alone
  const ExperimentBeside beside_it = beside(c, other, "another");
  EXPECT_EQ(beside_it.name, "another");
  EXPECT_EQ(beside_it.parameters, other.parameters);
  EXPECT_EQ(beside_it.tokens, other.tokens);
  ASSERT_EQ(beside_it.gaps.size(), 1U);
  const GapBeside& gap = beside_it.gaps[0];
  EXPECT_EQ(gap.recipe, "mxfp8");
  EXPECT_EQ(gap.share_of_training, 0.5);
  EXPECT_NEAR(gap.gap.mean, 0.0002, 1e-4);
  EXPECT_NEAR(gap.above.mean, 0.0002 - 0.001, 1e-4);
  EXPECT_LT(gap.above.lower, gap.above.mean);
  EXPECT_EQ(gap.verdict, other.arms[ranking(other)[0]].judgement.verdict);
  EXPECT_EQ(beside(other, c, "turned").gaps.size(), 1U);
  test::expect_error(ErrorKind::input, "itself: mxfp8_floor of seed 1 is a run of both",
                     [&] { beside(c, c, "itself"); });
  ParityComparison changed = other;
  for (ArmResult& arm : changed.arms) {
    if (arm.recipe == "mxfp8") arm.layers.gemms[0].a.scales = "floor";
  }
  test::expect_error(ErrorKind::input, "changed: its recipe mxfp8 is another one",
                     [&] { beside(c, changed, "changed"); });
}

TEST(Comparison, groups_a_recipe_by_branch_point) {
  const ParityComparison c = compare_runs(several_branch_points(0.002), {});
  const std::vector<RecipeByBranchPoint> recipes = by_branch_point(c);
  ASSERT_EQ(recipes.size(), 1U);  // mxfp8_floor is from scratch alone
  EXPECT_EQ(recipes[0].recipe, "mxfp8");
  ASSERT_EQ(recipes[0].arms.size(), 3U);
  const std::array shares{1.0, 0.5, 0.25};
  for (std::size_t i = 0; i < 3; ++i) {
    const ArmResult& arm = c.arms[recipes[0].arms[i]];
    EXPECT_EQ(share_of_training(c, arm), shares[i]);
    EXPECT_NEAR(arm.evidence.interval.mean, 0.002 * shares[i], 1e-4);
  }
  EXPECT_TRUE(by_branch_point(compare_runs(branches(0.0002), {})).empty());
}

TEST(RecipeCost, is_the_bits_of_codes_and_scales) {
  struct Case {
    const char* recipe;
    double x, w1, dy, w2, kept_x, kept_h;
  };
  constexpr double kMx = 8 + 8.0 / 32;
  constexpr double kFp32 = 8 + 32.0 / 128;
  constexpr double kFp32Square = 8 + 32.0 / 16384;
  constexpr double kPow2 = 8 + 8.0 / 128;
  constexpr double kPow2Square = 8 + 8.0 / 16384;
  for (const Case& c : {Case{"bf16", 16, 16, 16, 16, 16, 16}, Case{"mxfp8", kMx, kMx, kMx, kMx, 16, 16},
                        Case{"dsv3", kFp32, kFp32Square, kFp32, kFp32Square, kFp32, 16},
                        Case{"dsv3_pow2", kPow2, kPow2Square, kPow2, kPow2Square, kPow2, 12 + 8.0 / 128},
                        Case{"fp8_tensor", 8, 8, 8, 8, 16, 16}}) {
    const NamedRun run = made_up_run({.recipe = c.recipe});
    const RecipeCost cost = cost_of({.runs = {&run}});
    EXPECT_EQ(cost.x_bits, c.x) << c.recipe;
    EXPECT_EQ(cost.w1_bits, c.w1) << c.recipe;
    EXPECT_EQ(cost.dy_bits, c.dy) << c.recipe;
    EXPECT_EQ(cost.w2_bits, c.w2) << c.recipe;
    EXPECT_EQ(cost.kept_x_bits, c.kept_x) << c.recipe;
    EXPECT_EQ(cost.kept_h_bits, c.kept_h) << c.recipe;
    EXPECT_EQ(cost.optimizer_bytes, 12) << c.recipe;
  }
  const NamedRun run = made_up_run({.moments = Format::bf16});
  EXPECT_EQ(cost_of({.runs = {&run}}).optimizer_bytes, 8);
}

TEST(RecipeCost, has_the_speed_of_a_runs_own_steps) {
  const NamedRun trunk = made_up_trunk(1);
  NamedRun fast = made_up_branch(trunk, {.recipe = "mxfp8"}, 200, 0);
  NamedRun slow = made_up_branch(trunk, {.recipe = "mxfp8"}, 200, 0);
  fast.record.seconds = 100;
  slow.record.seconds = 200;
  // 200 steps of 256 tokens.
  EXPECT_EQ(cost_of({.runs = {&fast, &slow}}).tokens_a_second, (512 + 256) / 2);
  slow.record.seconds = 0;
  EXPECT_EQ(cost_of({.runs = {&fast, &slow}}).tokens_a_second, 512);
  EXPECT_TRUE(std::isnan(cost_of({.runs = {&slow}}).tokens_a_second));
}

TEST(Differences, are_at_every_evaluation_from_the_branch_point_on) {
  const ParityComparison c = compare_runs(branches(0.0002), {});
  const std::vector<CheckpointInterval>& d = arm_named(c, "mxfp8 from 50 %").differences;
  ASSERT_EQ(d.size(), 11U);  // of every 20 steps
  EXPECT_EQ(d.front().step, 200);
  EXPECT_EQ(d.back().step, 400);
  std::vector<double> expected;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) expected.push_back(test::spread(0.0002, 1e-4, seed));
  const PairedInterval i = paired_interval(expected, 0.05);  // not of a tenth of alpha
  EXPECT_NEAR(d.back().interval.lower, i.lower, 1e-6);
  EXPECT_NEAR(d.back().interval.upper, i.upper, 1e-6);
}

TEST(TrainingCurves, are_means_over_bins_of_the_pairs_that_did_not_diverge) {
  std::vector<NamedRun> runs;
  add_arm(runs, {.recipe = "bf16"}, 0, 0, 4);
  add_arm(runs, {.recipe = "mxfp8"}, 0.002, 0, 4);
  runs[3].record.end = RunEnd::diverged;
  runs[4].record.end = RunEnd::diverged;
  const std::vector<Arm> arms = arms_of(runs);
  const TrainingCurves curves = training_curves_of(arms[0], arms[1], 0.05);
  ASSERT_EQ(curves.difference.size(), static_cast<std::size_t>(kTrainingBins));
  ASSERT_EQ(curves.baseline.size(), curves.arm.size());
  for (std::size_t i = 0; i < curves.arm.size(); ++i) {
    EXPECT_EQ(curves.difference[i].interval.pairs, 2);
    EXPECT_NEAR(curves.difference[i].interval.mean, 0.002, 1e-6);
    EXPECT_NEAR(curves.arm[i].value / curves.baseline[i].value, 1.002, 1e-6);
  }
  // The first of 64 bins over 400 steps has six.
  double sum = 0;
  for (const std::size_t run : {1U, 2U}) {
    for (std::size_t step = 0; step < 6; ++step) sum += value_of(runs[run].record.steps[step].loss) / 12;
  }
  EXPECT_NEAR(curves.baseline.front().value, sum, 1e-9);
}

TEST(TrainingCurves, of_a_branch_begin_at_its_branch_point) {
  const std::vector<NamedRun> runs = branches(0.0002);
  const std::vector<Arm> arms = arms_of(runs);
  const TrainingCurves curves = training_curves_of(arms[0], arms.back(), 0.05);
  EXPECT_LT(curves.baseline.front().step, 10);
  EXPECT_GT(curves.arm.front().step, 200);
  EXPECT_LT(curves.arm.front().step, 210);
  EXPECT_EQ(curves.baseline.size(), static_cast<std::size_t>(kTrainingBins));
  EXPECT_EQ(curves.arm.size(), curves.difference.size());
  for (const CheckpointInterval& p : curves.difference) EXPECT_EQ(p.interval.mean, 0);  // the trunk's own losses
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
        ComparisonOptions{.margin = std::numeric_limits<double>::quiet_NaN()}, ComparisonOptions{.inner_margin = 0},
        ComparisonOptions{.inner_margin = 0.0011}, ComparisonOptions{.alpha = 0}, ComparisonOptions{.alpha = 0.6},
        ComparisonOptions{.power = 1}, ComparisonOptions{.spike = -1}})
    EXPECT_THROW((void)compare_runs(runs, o), Error);
}

// A window of alternating 1 and -1 with one value x in it: mean (x + r) / 128, r the sum of the rest.
std::vector<double> alternating(std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = i % 2 == 0 ? 1 : -1;
  return values;
}

TEST(Spikes, are_above_the_window_that_ends_with_them) {
  std::vector<double> values = alternating(300);
  EXPECT_EQ(spikes(values, 5), 0);
  values[200] = 6.5;  // z = (6.5 - 0.043) / sqrt((127 + 6.5^2) / 128 - 0.043^2) = 5.62
  EXPECT_EQ(spikes(values, 5), 1);
  EXPECT_EQ(spikes(values, 5.6), 1);
  EXPECT_EQ(spikes(values, 5.7), 0);
  values[200] = -6.5;  // a fall is none
  EXPECT_EQ(spikes(values, 5), 0);
}

TEST(Spikes, need_a_full_window) {
  std::vector<double> values = alternating(300);
  values[kSpikeWindow - 1] = 100;
  EXPECT_EQ(spikes(values, 5), 0);
  values[kSpikeWindow - 1] = -1;
  values[kSpikeWindow] = 100;
  EXPECT_EQ(spikes(values, 5), 1);
}

TEST(Spikes, count_what_is_no_finite_number_and_leave_it_out_of_the_window) {
  std::vector<double> values = alternating(300);
  values[10] = std::numeric_limits<double>::quiet_NaN();
  values[200] = std::numeric_limits<double>::infinity();
  values[220] = 100;
  EXPECT_EQ(spikes(values, 5), 3);
}

TEST(Spikes, of_constant_values_are_none) { EXPECT_EQ(spikes(std::vector<double>(300, 2.0), 5), 0); }

TEST(Spikes, are_counted_for_loss_and_gradient_norm) {
  NamedRun run = made_up_run({});
  const SpikeCount quiet = spikes_of(run.record, 5);
  EXPECT_EQ(quiet.loss, 0);
  EXPECT_EQ(quiet.gradient_norm, 0);
  run.record.steps[300].loss = bits(9);
  run.record.steps[310].gradient_norm = bits(9);
  run.record.steps[390].gradient_norm = bits(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(spikes_of(run.record, 5).loss, 1);
  EXPECT_EQ(spikes_of(run.record, 5).gradient_norm, 2);
}

struct TwoArms {
  std::vector<NamedRun> runs;
  std::vector<Arm> arms;
};

TwoArms two_arms(double gap, double noise) {
  TwoArms t;
  test::add_arm(t.runs, {.recipe = "bf16"}, 0, 0, 5);
  test::add_arm(t.runs, {.recipe = "mxfp8"}, gap, noise, 5);
  t.arms = arms_of(t.runs);
  return t;
}

TEST(Checkpoints, are_at_steps_of_about_equal_ratio_with_a_tenth_of_alpha) {
  const TwoArms t = two_arms(0.002, 1e-4);
  const std::vector<CheckpointInterval> c = checkpoints_of(t.arms[0], t.arms[1], 0.05);
  // 20 * 20^(k / 9) is 20, 28, 39, 54, 76, 106, 147, 206, 287, 400: the nearest multiples of 20 by ratio.
  std::vector<std::int64_t> steps;
  for (const CheckpointInterval& p : c) steps.push_back(p.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{20, 40, 60, 80, 100, 140, 200, 280, 400}));
  std::vector<double> d;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) d.push_back(test::spread(0.002, 1e-4, seed));
  const PairedInterval expected = paired_interval(d, 0.05 / 10);
  // Losses are FP32: 2^-24 of each of the two, twice that of their ratio, then the limits are sums of a few of them.
  EXPECT_NEAR(c.back().interval.lower, expected.lower, 1e-6);
  EXPECT_NEAR(c.back().interval.upper, expected.upper, 1e-6);
}

TEST(Checkpoints, leave_out_pairs_that_diverged) {
  TwoArms t = two_arms(0.002, 1e-4);
  t.runs[6].record.end = RunEnd::diverged;
  t.runs[0].record.end = RunEnd::diverged;
  EXPECT_EQ(checkpoints_of(t.arms[0], t.arms[1], 0.05).front().interval.pairs, 3);
}

// 2 + 3 / sqrt(step), smoothed over three evaluations: at 400 the mean of 360, 380 and 400.
TEST(TokenEquivalents, are_the_tokens_between_two_losses_of_the_baseline) {
  const TwoArms t = two_arms(0, 0);
  const auto smooth = [](double s) { return 2 + (1 / std::sqrt(s) + 1 / std::sqrt(s - 20) + 1 / std::sqrt(s - 40)); };
  const double tokens = 4 * 64;
  EXPECT_EQ(token_equivalents(t.arms[0], 0), 0);
  const double gap = smooth(300) / smooth(400) - 1;
  ASSERT_TRUE(token_equivalents(t.arms[0], gap).has_value());
  EXPECT_NEAR(*token_equivalents(t.arms[0], gap), 100 * tokens, 1e-2 * tokens);
  EXPECT_EQ(token_equivalents(t.arms[0], -0.001), std::nullopt);
  EXPECT_EQ(token_equivalents(t.arms[0], 0.5), std::nullopt);
  EXPECT_EQ(token_equivalents(t.arms[0], std::numeric_limits<double>::quiet_NaN()), std::nullopt);
}

TEST(RunCurve, has_every_evaluation_and_bins_that_hold_every_step) {
  const NamedRun run = made_up_run({});
  const RunCurve curve = curve_of(run);
  EXPECT_EQ(curve.validation.size(), run.record.evaluations.size());
  ASSERT_GT(curve.training.size(), 20U);
  EXPECT_EQ(curve.training.front().step, 1);
  EXPECT_EQ(curve.training.front().value, value_of(run.record.steps.front().loss));
  for (std::size_t i = 1; i < curve.training.size(); ++i) EXPECT_LT(curve.training[i - 1].step, curve.training[i].step);
  NamedRun none = run;
  none.record.steps.clear();
  EXPECT_TRUE(curve_of(none).training.empty());
}

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

// How an arm is judged: the verdict that follows from an interval, the interval itself and the pairs it needs, and by
// simulation how often the rule errs.

namespace {

constexpr double kMargin = 0.0010;
const Sensitivity kSensitive{.without_repeat = "", .without_control = ""};

ArmEvidence evidence(double lower, double upper, std::int64_t pairs = 5) {
  return {.interval = {
              .pairs = pairs, .mean = (lower + upper) / 2, .deviation = upper - lower, .lower = lower, .upper = upper}};
}

ArmVerdict verdict(const ArmEvidence& e, const Sensitivity& s = kSensitive) { return judge(e, kMargin, s).verdict; }

TEST(Verdict, is_what_the_interval_says) {
  EXPECT_EQ(verdict(evidence(-0.0005, 0.0005)), ArmVerdict::equivalent);
  EXPECT_EQ(verdict(evidence(-0.0020, 0.0005)), ArmVerdict::non_inferior);
  EXPECT_EQ(verdict(evidence(0.0011, 0.0020)), ArmVerdict::inferior);
  EXPECT_EQ(verdict(evidence(-0.0020, -0.0011)), ArmVerdict::improved);
  EXPECT_EQ(verdict(evidence(0.0005, 0.0020)), ArmVerdict::inconclusive);
  EXPECT_EQ(verdict(evidence(-0.0020, 0.0020)), ArmVerdict::inconclusive);
}

TEST(Verdict, beyond_the_margin_says_nothing_where_a_a_reaches_as_far) {
  const Sensitivity noisy{.without_repeat = "", .without_control = "", .noise = 0.0015};
  EXPECT_EQ(verdict(evidence(0.0011, 0.0020), noisy), ArmVerdict::inconclusive);
  EXPECT_EQ(verdict(evidence(0.0015, 0.0020), noisy), ArmVerdict::inconclusive);
  EXPECT_EQ(verdict(evidence(-0.0020, -0.0011), noisy), ArmVerdict::inconclusive);
  EXPECT_NE(judge(evidence(-0.0020, -0.0011), kMargin, noisy).reason.find("A/A reaches 0.1500 %"), std::string::npos);
  // Further than that it is the recipe.
  EXPECT_EQ(verdict(evidence(0.0016, 0.0020), noisy), ArmVerdict::inferior);
  EXPECT_EQ(verdict(evidence(-0.0020, -0.0016), noisy), ArmVerdict::improved);
  // Within the margin it changes nothing.
  EXPECT_EQ(verdict(evidence(-0.0005, 0.0005), noisy), ArmVerdict::equivalent);
  EXPECT_EQ(verdict(evidence(0.0005, 0.0020), noisy), ArmVerdict::inconclusive);
}

TEST(Verdict, noise_is_how_far_the_limits_of_a_a_reach) {
  EXPECT_EQ(noise_of(evidence(0.0011, 0.0020)), 0.0020);
  EXPECT_EQ(noise_of(evidence(-0.0030, 0.0020)), 0.0030);
  EXPECT_EQ(noise_of(ArmEvidence()), 0);
  EXPECT_EQ(noise_of(evidence(-0.0030, 0.0020, 1)), 0);  // no interval of one pair
}

TEST(Verdict, limits_on_the_margin_are_not_beyond_it) {
  EXPECT_EQ(verdict(evidence(0, kMargin)), ArmVerdict::inconclusive);
  EXPECT_EQ(verdict(evidence(kMargin, 0.0020)), ArmVerdict::inconclusive);
  EXPECT_EQ(verdict(evidence(-kMargin, 0)), ArmVerdict::non_inferior);
  EXPECT_EQ(verdict(evidence(-0.0020, -kMargin)), ArmVerdict::non_inferior);
}

TEST(Verdict, says_a_gap_above_zero_and_below_the_margin) {
  EXPECT_NE(judge(evidence(0.0001, 0.0005), kMargin, kSensitive).reason.find("clearly above zero"), std::string::npos);
  EXPECT_EQ(judge(evidence(-0.0001, 0.0005), kMargin, kSensitive).reason.find("clearly above zero"), std::string::npos);
}

TEST(Verdict, is_inconclusive_for_each_condition_that_fails_and_says_which) {
  const ArmEvidence good = evidence(-0.0005, 0.0005);
  ArmEvidence missing = good;
  missing.missing = 2;
  struct Case {
    ArmEvidence evidence;
    Sensitivity sensitivity;
    std::string reason;
  };
  for (const Case& c :
       {Case{evidence(-0.0005, 0.0005, 4), kSensitive, "4 pairs of at least 5"},
        Case{missing, kSensitive, "2 seeds of the experiment not run"}, Case{good, {"no A/A runs", ""}, "no A/A runs"},
        Case{good, {"", "no negative control"}, "no negative control"},
        Case{good, {}, "no A/A runs; no negative control"},
        Case{evidence(0.0005, 0.0020), kSensitive, "is between the limits"},
        Case{{}, kSensitive, "0 pairs of at least 5: no interval"}}) {
    const Judgement j = judge(c.evidence, kMargin, c.sensitivity);
    EXPECT_EQ(j.verdict, ArmVerdict::inconclusive) << c.reason;
    EXPECT_NE(j.reason.find(c.reason), std::string::npos) << j.reason;
  }
}

// A failure needs no proof that failures can be seen.
TEST(Verdict, of_a_failure_needs_no_conditions) {
  EXPECT_EQ(verdict(evidence(0.0011, 0.0020, 2), {}), ArmVerdict::inferior);
  EXPECT_EQ(verdict(evidence(-0.0020, -0.0011, 2), {}), ArmVerdict::improved);
}

TEST(Verdict, of_a_divergence_is_decided_before_the_interval) {
  ArmEvidence e = evidence(-0.0005, 0.0005);
  e.diverged = 1;
  EXPECT_EQ(verdict(e), ArmVerdict::diverged);
  e.diverged_baseline = 1;
  EXPECT_EQ(verdict(e), ArmVerdict::inconclusive);
  e.diverged = 0;
  EXPECT_EQ(verdict(e), ArmVerdict::inconclusive);
}

TEST(Verdict, repeats_are_equivalent_inside_of_the_margin_with_noise_alone) {
  EXPECT_EQ(why_not_equivalent(evidence(-0.0005, 0.0005), kMargin), "");
  EXPECT_NE(why_not_equivalent(evidence(-0.0005, 0.0010), kMargin), "");
  EXPECT_NE(why_not_equivalent(evidence(-0.0010, 0.0005), kMargin), "");
  EXPECT_NE(why_not_equivalent(evidence(-0.0005, 0.0005, 4), kMargin), "");
  EXPECT_NE(why_not_equivalent(evidence(0, 0), kMargin), "");
  EXPECT_NE(why_not_equivalent({}, kMargin), "");
  ArmEvidence e = evidence(-0.0005, 0.0005);
  e.diverged = 1;
  EXPECT_NE(why_not_equivalent(e, kMargin), "");
}

TEST(Verdict, a_control_is_rejected_above_the_margin_or_diverged) {
  EXPECT_EQ(why_not_rejected(evidence(0.0011, 0.0500), kMargin), "");
  EXPECT_NE(why_not_rejected(evidence(0.0010, 0.0500), kMargin), "");
  EXPECT_NE(why_not_rejected({}, kMargin), "");
  ArmEvidence e;
  e.diverged = 1;
  EXPECT_EQ(why_not_rejected(e, kMargin), "");
}

// Quantiles of Student's t as statistical tables print them: to three decimals.
TEST(StudentT, has_the_quantiles_of_the_printed_tables) {
  struct Entry {
    double p;
    double freedom;
    double quantile;
  };
  for (const Entry& e : std::array{Entry{0.95, 1, 6.314}, Entry{0.95, 2, 2.920}, Entry{0.95, 4, 2.132},
                                   Entry{0.95, 9, 1.833}, Entry{0.95, 30, 1.697}, Entry{0.975, 4, 2.776},
                                   Entry{0.995, 4, 4.604}, Entry{0.995, 10, 3.169}, Entry{0.05, 4, -2.132}})
    EXPECT_NEAR(student_t_quantile(e.p, e.freedom), e.quantile, 5e-4) << e.p << " " << e.freedom;
}

// 1 ... 5: mean 3, deviation sqrt(10 / 4), half width 2.13185 * 1.58114 / sqrt(5) = 1.50745.
TEST(PairedInterval, equals_an_interval_computed_by_hand) {
  const PairedInterval i = paired_interval(std::array{1.0, 2.0, 3.0, 4.0, 5.0}, 0.05);
  EXPECT_EQ(i.pairs, 5);
  EXPECT_EQ(i.mean, 3);
  EXPECT_NEAR(i.deviation, 1.5811388, 1e-7);
  EXPECT_NEAR(i.lower, 3 - 1.50745, 1e-5);
  EXPECT_NEAR(i.upper, 3 + 1.50745, 1e-5);
}

TEST(PairedInterval, of_fewer_than_two_pairs_has_no_limits) {
  EXPECT_TRUE(std::isnan(paired_interval({}, 0.05).mean));
  const PairedInterval one = paired_interval(std::array{0.5}, 0.05);
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_TRUE(std::isnan(one.lower) && std::isnan(one.upper) && std::isnan(one.deviation));
}

TEST(PairedInterval, of_a_difference_that_is_no_number_is_none) {
  const PairedInterval i = paired_interval(std::array{1.0, std::numeric_limits<double>::quiet_NaN(), 2.0}, 0.05);
  EXPECT_TRUE(std::isnan(i.mean) && std::isnan(i.lower) && std::isnan(i.upper));
}

// The table of docs/parity_rule.md, margin over the deviation of a seed: for pairs of correlation 0.5 d deviates as
// much as a seed.
TEST(Power, needs_the_pairs_of_the_published_table) {
  struct Entry {
    double margin;
    std::int64_t pairs;
  };
  for (const Entry& e :
       std::array{Entry{6, 3}, Entry{3, 3}, Entry{2.4, 4}, Entry{2, 4}, Entry{1.5, 6}, Entry{1.2, 8}, Entry{1, 11}})
    EXPECT_EQ(pairs_needed(e.margin, 1, 0.05, 0.9), e.pairs) << e.margin;
  const double deviation = std::sqrt(0.4);  // for 0.8: sqrt(2 (1 - 0.8))
  for (const Entry& e :
       std::array{Entry{6, 2}, Entry{3, 3}, Entry{2.4, 3}, Entry{2, 3}, Entry{1.5, 4}, Entry{1.2, 5}, Entry{1, 6}})
    EXPECT_EQ(pairs_needed(e.margin, deviation, 0.05, 0.9), e.pairs) << e.margin;
}

TEST(Power, of_a_gap_of_zero_is_alpha) {
  for (const std::int64_t pairs : {2, 5, 20}) EXPECT_NEAR(power_of(pairs, 0, 1, 0.05), 0.05, 1e-9);
}

TEST(Power, visible_gap_is_where_the_power_is_reached) {
  for (const std::int64_t pairs : {2, 5, 40}) {
    const double gap = visible_gap(pairs, 3e-4, 0.05, 0.9);
    EXPECT_NEAR(power_of(pairs, gap, 3e-4, 0.05), 0.9, 1e-6) << pairs;
  }
}

TEST(Power, without_noise_sees_every_gap) {
  EXPECT_EQ(power_of(5, 1e-9, 0, 0.05), 1);
  EXPECT_EQ(visible_gap(5, 0, 0.05, 0.9), 0);
  EXPECT_EQ(pairs_needed(0.001, 0, 0.05, 0.9), 2);
  EXPECT_EQ(power_of(1000, 1, 1e-3, 0.05), 1);
}

TEST(Power, of_a_deviation_that_is_no_number_needs_no_number_of_pairs) {
  EXPECT_EQ(pairs_needed(0.001, std::numeric_limits<double>::quiet_NaN(), 0.05, 0.9), std::nullopt);
  EXPECT_TRUE(std::isnan(visible_gap(1, 1, 0.05, 0.9)));
}

TEST(Correlation, is_that_of_the_pairs) {
  const std::array x{1.0, 2.0, 3.0, 4.0};
  EXPECT_NEAR(correlation_of(x, std::array{2.0, 4.0, 6.0, 8.0}), 1, 1e-12);
  EXPECT_NEAR(correlation_of(x, std::array{4.0, 3.0, 2.0, 1.0}), -1, 1e-12);
  EXPECT_NEAR(correlation_of(x, std::array{1.0, 3.0, 2.0, 4.0}), 0.8, 1e-12);
  EXPECT_TRUE(std::isnan(correlation_of(x, std::array{1.0, 1.0, 1.0, 1.0})));
  EXPECT_TRUE(std::isnan(correlation_of(std::array{1.0, 2.0}, std::array{1.0, 2.0})));
}

TEST(StudentT, refuses_what_is_no_probability_and_no_freedom) {
  EXPECT_THROW(student_t_quantile(1, 4), Error);
  EXPECT_THROW(student_t_quantile(std::numeric_limits<double>::quiet_NaN(), 4), Error);
  EXPECT_THROW(student_t_quantile(0.95, 0), Error);
  EXPECT_THROW(student_t_quantile(0.95, std::numeric_limits<double>::quiet_NaN()), Error);
}

// scipy 1.x: ttest_ind(a, b, equal_var=False), its freedom and confidence_interval(0.9).
TEST(UnpairedInterval, equals_scipys_of_welch) {
  const PairedInterval a = paired_interval(std::array{0.031, 0.024, 0.018, 0.027, 0.044}, 0.05);
  const PairedInterval b = paired_interval(std::array{0.012, 0.055, -0.013, 0.09, 0.041, 0.02}, 0.05);
  const UnpairedInterval i = unpaired_interval(a, b, 0.05);
  EXPECT_NEAR(i.mean, -0.005366666666666672, 1e-15);
  EXPECT_NEAR(i.freedom, 5.854529976046726, 1e-12);
  EXPECT_NEAR(i.lower, -0.035358156029429696, 1e-12);
  EXPECT_NEAR(i.upper, 0.024624822696096334, 1e-12);
  const UnpairedInterval turned = unpaired_interval(b, a, 0.05);
  EXPECT_EQ(turned.mean, -i.mean);
  EXPECT_EQ(turned.lower, -i.upper);
}

TEST(UnpairedInterval, of_too_few_or_of_no_spread) {
  const PairedInterval two = paired_interval(std::array{1.0, 1.0}, 0.05);
  const PairedInterval one = paired_interval(std::array{3.0}, 0.05);
  EXPECT_EQ(unpaired_interval(one, two, 0.05).mean, 2);
  EXPECT_TRUE(std::isnan(unpaired_interval(one, two, 0.05).lower));
  EXPECT_TRUE(std::isnan(unpaired_interval({}, two, 0.05).mean));
  EXPECT_EQ(unpaired_interval(two, two, 0.05).upper, 0);  // no spread in either: the difference itself
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(unpaired_interval(paired_interval(std::array{1.0, nan}, 0.05), two, 0.05).upper));
}

// The rule's error rates, by simulation through the functions that decide: experiments whose differences are normal
// with a known true gap.

constexpr int kExperiments = 10'000;
constexpr double kAlpha = 0.05;

// By Box and Muller from a specified engine: the library's distributions are not specified to the bit.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }  // of (0, 1)
  std::mt19937_64 engine_;
};

struct Shares {
  double not_inferior = 0;  // non-inferior or equivalent
  double equivalent = 0;
  double inferior = 0;
};

Shares simulate(double gap, double deviation, std::size_t pairs, std::uint64_t seed) {
  Normal normal(seed);
  std::vector<double> d(pairs);
  Shares shares;
  for (int i = 0; i < kExperiments; ++i) {
    for (double& x : d) x = gap + deviation * normal();
    const ArmVerdict v = judge({.interval = paired_interval(d, kAlpha)}, kMargin, {"", ""}).verdict;
    constexpr double kOne = 1.0 / kExperiments;
    if (v == ArmVerdict::equivalent) shares.equivalent += kOne;
    if (v == ArmVerdict::equivalent || v == ArmVerdict::non_inferior || v == ArmVerdict::improved)
      shares.not_inferior += kOne;
    if (v == ArmVerdict::inferior) shares.inferior += kOne;
  }
  return shares;
}

// A share of kExperiments with probability p is further from p than this with probability below 1e-5: 4.42 standard
// deviations of a binomial, which is near to normal here.
double bound(double p) { return 4.42 * std::sqrt(p * (1 - p) / kExperiments); }

TEST(ErrorRates, a_gap_of_the_margin_passes_in_alpha_of_experiments) {
  std::uint64_t seed = 1;
  for (const std::size_t pairs : {5U, 8U, 11U}) {
    for (const double deviation : {0.0002, 0.0010}) {
      const Shares s = simulate(kMargin, deviation, pairs, seed++);
      EXPECT_NEAR(s.not_inferior, kAlpha, bound(kAlpha)) << pairs << " pairs, deviation " << deviation;
      EXPECT_LE(s.equivalent, kAlpha + bound(kAlpha));
      EXPECT_NEAR(s.inferior, kAlpha, bound(kAlpha));
    }
  }
}

TEST(ErrorRates, no_gap_is_called_inferior_in_fewer_than_alpha_of_experiments) {
  EXPECT_LE(simulate(0, 0.0010, 5, 21).inferior, kAlpha + bound(kAlpha));
}

// The rows of the table of docs/parity_rule.md with five pairs or more: with so many the power is 0.9 or more, with one
// fewer it is less. Where that is below five, the rule says inconclusive whatever the interval.
TEST(ErrorRates, power_is_that_of_the_table_of_seeds) {
  struct Row {
    double margin_in_deviations;  // of d
    std::size_t pairs;
  };
  std::uint64_t seed = 31;
  for (const Row& row : {Row{1.5, 6}, Row{1.2, 8}, Row{1.0, 11}, Row{1.2 / std::sqrt(0.4), 5}}) {
    const double deviation = kMargin / row.margin_in_deviations;
    const Shares s = simulate(0, deviation, row.pairs, seed++);
    EXPECT_GE(s.not_inferior, 0.9 - bound(0.9)) << row.pairs;
    EXPECT_NEAR(s.not_inferior, power_of(static_cast<std::int64_t>(row.pairs), kMargin, deviation, kAlpha), bound(0.9))
        << row.pairs;
    const Shares fewer = simulate(0, deviation, row.pairs - 1, seed++);
    if (row.pairs - 1 < static_cast<std::size_t>(kLeastPairs))
      EXPECT_EQ(fewer.not_inferior, 0);
    else
      EXPECT_LE(fewer.not_inferior, 0.9 + bound(0.9)) << row.pairs;
  }
}

// Experiments at one branch point as docs/parity_rule.md has them: two A/A arms, a control, and an arm with a known
// true gap, five pairs each, whose verdict asks for all of them. Seeds may differ in how noisy they are.
struct BranchNoise {
  double usual = 0;
  double of_some = 0;  // of every second pair, on average
};
Shares simulate_branches(double gap, const BranchNoise& noise, std::uint64_t seed) {
  Normal normal(seed);
  const auto drawn = [&](double mean, double scale) {
    std::vector<double> d(static_cast<std::size_t>(kLeastPairs));
    for (double& x : d) x = mean + scale * (normal() > 0 ? noise.usual : noise.of_some) * normal();
    return ArmEvidence{.interval = paired_interval(d, kAlpha)};
  };
  Shares shares;
  for (int i = 0; i < kExperiments; ++i) {
    const ArmEvidence moved = drawn(0, 1), reordered = drawn(0, 1), control = drawn(0.5, 100);
    std::string repeat = why_not_equivalent(moved, kMargin);
    if (repeat.empty()) repeat = why_not_equivalent(reordered, kMargin);
    const Sensitivity s{repeat, why_not_rejected(control, kMargin), std::max(noise_of(moved), noise_of(reordered))};
    const ArmVerdict v = judge(drawn(gap, 1), kMargin, s).verdict;
    constexpr double kOne = 1.0 / kExperiments;
    if (v == ArmVerdict::equivalent) shares.equivalent += kOne;
    if (v == ArmVerdict::equivalent || v == ArmVerdict::non_inferior) shares.not_inferior += kOne;
    if (v == ArmVerdict::inferior) shares.inferior += kOne;
  }
  return shares;
}

TEST(ErrorRates, of_branches_are_at_most_alpha_and_small_gaps_are_decided) {
  std::uint64_t seed = 51;
  for (const BranchNoise& noise : {BranchNoise{0.00012, 0.00012}, BranchNoise{0.00004, 0.00020}}) {
    const Shares at_margin = simulate_branches(kMargin, noise, seed++);
    EXPECT_LE(at_margin.not_inferior, kAlpha + bound(kAlpha)) << noise.of_some;
    EXPECT_LE(at_margin.inferior, kAlpha + bound(kAlpha)) << noise.of_some;
    const Shares below = simulate_branches(-kMargin, noise, seed++);
    EXPECT_LE(below.equivalent, kAlpha + bound(kAlpha)) << noise.of_some;
    EXPECT_GE(simulate_branches(0.0003, noise, seed++).equivalent, 0.99) << noise.of_some;
    EXPECT_GE(simulate_branches(0.0030, noise, seed++).inferior, 0.99) << noise.of_some;
  }
}

}  // namespace
}  // namespace mxcheck
