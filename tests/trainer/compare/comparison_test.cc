// Comparisons of runs, and what they report beside the verdict: spikes, curves, routes and operands.

#include "trainer/compare/comparison.h"
#include "tests/testing.h"
#include "tests/trainer/made_up_runs.h"
#include "trainer/compare/interval.h"
#include "trainer/compare/trajectory.h"

namespace mxcheck {
namespace {

using namespace test;

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
  using Case = std::tuple<double, double, ArmVerdict, int>;
  for (const auto& [gap, noise, verdict, code] :
       {Case{0.0001, 2e-4, ArmVerdict::equivalent, 0}, Case{-0.0009, 3e-4, ArmVerdict::non_inferior, 0},
        Case{0.0030, 2e-4, ArmVerdict::inferior, 1}, Case{-0.0030, 2e-4, ArmVerdict::improved, 1},
        Case{0.0010, 2e-4, ArmVerdict::inconclusive, 4}, Case{0, 5e-3, ArmVerdict::inconclusive, 4}}) {
    const ParityComparison result = with_arm(gap, noise);
    const ArmResult& arm = arm_named(result, "mxfp8");
    EXPECT_EQ(arm.judgement.verdict, verdict) << gap << ": " << arm.judgement.reason;
    EXPECT_EQ(exit_code(result), code) << gap;
    EXPECT_EQ(arm_named(result, "bf16 + one ulp").judgement.verdict, ArmVerdict::equivalent);
    EXPECT_EQ(arm_named(result, "broken").judgement.verdict, ArmVerdict::inferior);
  }
}

// An arm of its own, whose name says so, whatever the recipe in all layers is judged to be.
TEST(Comparison, judges_a_recipe_beside_the_same_with_last_layers_in_bf16) {
  std::vector<NamedRun> runs = sensitive_experiment();
  add_arm(runs, {.recipe = "nvfp4"}, 0.0030, 2e-4, 6);
  add_arm(runs, {.recipe = "nvfp4", .bf16_last = 1}, 0.0001, 2e-4, 6);
  const ParityComparison c = compare_runs(runs, {});
  EXPECT_EQ(arm_named(c, "nvfp4").judgement.verdict, ArmVerdict::inferior);
  EXPECT_EQ(arm_named(c, "nvfp4+bf16_last1").judgement.verdict, ArmVerdict::equivalent);
  EXPECT_EQ(arm_named(c, "nvfp4+bf16_last1").recipe, "nvfp4+bf16_last1");
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
  runs.back().record.evaluations.back().loss_bf16 = bits(std::numeric_limits<double>::quiet_NaN());
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
  expect_contains(arm_named(c, "mxfp8").judgement.reason, "negative control: not rejected");
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
    runs.push_back(made_up_branch(made_up_trunk(seed), {.recipe = "mxfp8"}, 300, spread(0, 1e-4, seed)));
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
    expect_error(ErrorKind::input, words, [&] { compare_runs(runs, {}); });
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
  for (const char* recipe : {"mxfp4", "broken", "bf16"})
    expect_error(ErrorKind::usage, "those that are: mxfp8, mxfp8_floor",
                 [&] { compare_runs(runs, {.graded = {recipe}}); });
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
  expect_error(ErrorKind::input, "itself: mxfp8_floor of seed 1 is a run of both", [&] { beside(c, c, "itself"); });
  ParityComparison changed = other;
  for (ArmResult& arm : changed.arms) {
    if (arm.recipe == "mxfp8") arm.layers.gemms[0].a.scales = "floor";
  }
  expect_error(ErrorKind::input, "changed: its recipe mxfp8 is another one", [&] { beside(c, changed, "changed"); });
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
  using Case = std::tuple<const char*, double, double, double, double, double, double>;
  constexpr double kMx = 8 + 8.0 / 32;
  constexpr double kFp32 = 8 + 32.0 / 128;
  constexpr double kFp32Square = 8 + 32.0 / 16384;
  constexpr double kPow2 = 8 + 8.0 / 128;
  constexpr double kPow2Square = 8 + 8.0 / 16384;
  for (const auto& [recipe, x, w1, dy, w2, kept_x, kept_h] :
       {Case{"bf16", 16, 16, 16, 16, 16, 16}, Case{"mxfp8", kMx, kMx, kMx, kMx, 16, 16},
        Case{"dsv3", kFp32, kFp32Square, kFp32, kFp32Square, kFp32, 16},
        Case{"dsv3_pow2", kPow2, kPow2Square, kPow2, kPow2Square, kPow2, 12 + 8.0 / 128},
        Case{"fp8_tensor", 8, 8, 8, 8, 16, 16}}) {
    const NamedRun run = made_up_run({.recipe = recipe});
    const RecipeCost cost = cost_of({.runs = {&run}});
    EXPECT_EQ(cost.x_bits, x) << recipe;
    EXPECT_EQ(cost.w1_bits, w1) << recipe;
    EXPECT_EQ(cost.dy_bits, dy) << recipe;
    EXPECT_EQ(cost.w2_bits, w2) << recipe;
    EXPECT_EQ(cost.kept_x_bits, kept_x) << recipe;
    EXPECT_EQ(cost.kept_h_bits, kept_h) << recipe;
    EXPECT_EQ(cost.optimizer_bytes, 12) << recipe;
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
  for (std::uint64_t seed = 1; seed <= 6; ++seed) expected.push_back(spread(0.0002, 1e-4, seed));
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
  for (std::uint64_t seed = 1; seed <= 6; ++seed) endpoints.push_back(made_up_loss(400, seed));
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
  EXPECT_NEAR(arm.pairs[2].difference, spread(0.0001, 2e-4, 3), 1e-6);
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
  add_arm(t.runs, {.recipe = "bf16"}, 0, 0, 5);
  add_arm(t.runs, {.recipe = "mxfp8"}, gap, noise, 5);
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
  for (std::uint64_t seed = 1; seed <= 5; ++seed) d.push_back(spread(0.002, 1e-4, seed));
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
  add_arm(runs, {.recipe = recipe}, 0, 0, 2);
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
