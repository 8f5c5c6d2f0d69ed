#include "trainer/compare/trajectory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/made_up_runs.h"

namespace mxcheck {
namespace {

using test::bits;
using test::made_up_run;

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

}  // namespace
}  // namespace mxcheck
