// Tests how an arm is judged: the verdict that follows from an interval, the interval itself and the pairs it needs,
// and by simulation how often the rule errs.

#include <numbers>

#include "tests/testing.h"
#include "tests/trainer/made_up_runs.h"
#include "trainer/compare/arm.h"
#include "trainer/compare/interval.h"

namespace mxcheck {
namespace {

using namespace test;

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
  expect_contains(judge(evidence(-0.0020, -0.0011), kMargin, noisy).reason, "A/A reaches 0.1500 %");
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
  expect_contains(judge(evidence(0.0001, 0.0005), kMargin, kSensitive).reason, "clearly above zero");
  EXPECT_EQ(judge(evidence(-0.0001, 0.0005), kMargin, kSensitive).reason.find("clearly above zero"), std::string::npos);
}

TEST(Verdict, is_inconclusive_for_each_condition_that_fails_and_says_which) {
  const ArmEvidence good = evidence(-0.0005, 0.0005);
  ArmEvidence missing = good;
  missing.missing = 2;
  using Case = std::tuple<ArmEvidence, Sensitivity, std::string>;
  for (const auto& [evidence, sensitivity, reason] :
       {Case{evidence(-0.0005, 0.0005, 4), kSensitive, "4 pairs of at least 5"},
        Case{missing, kSensitive, "2 seeds of the experiment not run"}, Case{good, {"no A/A runs", ""}, "no A/A runs"},
        Case{good, {"", "no negative control"}, "no negative control"},
        Case{good, {}, "no A/A runs; no negative control"},
        Case{evidence(0.0005, 0.0020), kSensitive, "is between the limits"},
        Case{{}, kSensitive, "0 pairs of at least 5: no interval"}}) {
    const Judgement j = judge(evidence, kMargin, sensitivity);
    EXPECT_EQ(j.verdict, ArmVerdict::inconclusive) << reason;
    expect_contains(j.reason, reason);
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
  using Entry = std::tuple<double, double, double>;
  for (const auto& [p, freedom, quantile] :
       std::array{Entry{0.95, 1, 6.314}, Entry{0.95, 2, 2.920}, Entry{0.95, 4, 2.132}, Entry{0.95, 9, 1.833},
                  Entry{0.95, 30, 1.697}, Entry{0.975, 4, 2.776}, Entry{0.995, 4, 4.604}, Entry{0.995, 10, 3.169},
                  Entry{0.05, 4, -2.132}})
    EXPECT_NEAR(student_t_quantile(p, freedom), quantile, 5e-4) << p << " " << freedom;
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

std::string refusal(const std::vector<NamedRun>& runs) {
  try {
    (void)arms_of(runs);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::input);
    return e.what();
  }
  return "";
}

TEST(Arm, name_says_all_that_differs_from_the_baseline) {
  const auto name = [](const MadeUp& m) { return arm_name({.config = made_up_config(m)}); };
  EXPECT_EQ(name({}), "bf16");
  EXPECT_EQ(name({.recipe = "mxfp8"}), "mxfp8");
  EXPECT_EQ(name({.perturb = 3}), "bf16 + one ulp");
  EXPECT_EQ(name({.perturb = kPerturbAll}), "bf16 + all weights moved");
  EXPECT_EQ(name({.perturb = kPerturbOrder}), "bf16 + columns reordered");
  EXPECT_EQ(name({.rounding = TokenRoundingRule::nr_f}), "bf16 + nr-f");
  EXPECT_EQ(name({.recipe = "mxfp8", .rounding = TokenRoundingRule::nr_f, .moments = Format::bf16}),
            "mxfp8 + nr-f + moments bf16");
  TrainingConfig c = made_up_config({.rounding = TokenRoundingRule::nr_f});
  c.tile = 64;
  EXPECT_EQ(arm_name({.config = c}), "bf16 + nr-f to 64");
}

TEST(Arm, name_of_a_branch_is_its_recipe_and_the_branch_point) {
  RunRecord run{.config = made_up_config({.recipe = "mxfp8", .moments = Format::bf16})};
  for (const auto& [step, words] : {std::pair(200, "50 %"), {50, "12.5 %"}, {133, "33.25 %"}}) {
    run.branch = RunBranch{.step = step};
    EXPECT_EQ(branch_point(step, run.config.steps), words);
    EXPECT_EQ(arm_recipe(run.config), "mxfp8 + moments bf16");
    EXPECT_EQ(arm_name(run), std::string("mxfp8 + moments bf16 from ") + words);
  }
  EXPECT_EQ(branch_point(0, 400), "scratch");
}

TEST(Arm, groups_runs_and_orders_them_by_role_and_seed) {
  std::vector<NamedRun> runs;
  for (const std::uint64_t seed : {2U, 1U}) {
    runs.push_back(made_up_run({.recipe = "mxfp8", .seed = seed}));
    runs.push_back(made_up_run({.recipe = "broken", .seed = seed}));
    runs.push_back(made_up_run({.seed = seed, .perturb = static_cast<std::int64_t>(seed)}));
    runs.push_back(made_up_run({.seed = seed}));
    runs.push_back(made_up_run({.seed = seed, .moments = Format::bf16}));
  }
  const std::vector<Arm> arms = arms_of(runs);
  ASSERT_EQ(arms.size(), 5U);
  EXPECT_EQ(arms[0].role, ArmRole::baseline);
  EXPECT_EQ(arms[1].role, ArmRole::repeat);
  EXPECT_EQ(arms[2].role, ArmRole::control);
  EXPECT_EQ(arms[3].name, "bf16 + moments bf16");
  EXPECT_EQ(arms[4].name, "mxfp8");
  for (const Arm& arm : arms) {
    ASSERT_EQ(arm.runs.size(), 2U) << arm.name;
    EXPECT_EQ(arm.runs[0]->record.config.seed, 1U) << arm.name;
  }
}

TEST(Arm, endpoint_is_the_mean_of_the_last_three_evaluations) {
  NamedRun run = made_up_run({});
  auto& e = run.record.evaluations;
  for (std::size_t i = 0; i < 3; ++i) {
    e[e.size() - 3 + i].loss_bf16 = bits(3.0 + static_cast<double>(i));
    e[e.size() - 3 + i].loss_own = bits(5.0 + static_cast<double>(i));
  }
  EXPECT_EQ(endpoint_of(run.record), 4);
  EXPECT_EQ(own_endpoint_of(run.record), 6);
}

TEST(Arm, training_endpoint_is_the_mean_of_the_last_tenth) {
  RunRecord run = made_up_run({}).record;
  run.steps.resize(25);
  for (std::size_t i = 0; i < 25; ++i) run.steps[i].loss = bits(i < 22 ? 100.0 : static_cast<double>(i));
  EXPECT_EQ(training_endpoint_of(run), 23);  // of 22, 23, 24
  run.steps.resize(1);
  EXPECT_EQ(training_endpoint_of(run), 100);
}

TEST(Arm, has_diverged_where_its_endpoint_is_no_number) {
  EXPECT_FALSE(has_diverged(made_up_run({}).record));
  NamedRun run = made_up_run({});
  run.record.evaluations.back().loss_bf16 = bits(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(has_diverged(run.record));
  EXPECT_TRUE(std::isnan(endpoint_of(run.record)));
  run = made_up_run({});
  run.record.evaluations.back().loss_own = bits(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(has_diverged(run.record));
  run = made_up_run({});
  run.record.end = RunEnd::diverged;
  EXPECT_TRUE(std::isnan(endpoint_of(run.record)));
}

TEST(Arm, refuses_runs_of_another_experiment_naming_files_and_field) {
  struct Case {
    std::string field;
    std::function<void(RunRecord&)> change;
  };
  const std::vector<Case> cases{
      {"model.layers", [](RunRecord& r) { r.config.model.layers = 3; }},
      {"model.width", [](RunRecord& r) { r.config.model.width = 128; }},
      {"model.heads", [](RunRecord& r) { r.config.model.heads = 4; }},
      {"model.experts", [](RunRecord& r) { r.config.model.experts = 4; }},
      {"model.inner", [](RunRecord& r) { r.config.model.inner = 64; }},
      {"model.top_k", [](RunRecord& r) { r.config.model.top_k = 1; }},
      {"model.length", [](RunRecord& r) { r.config.model.length = 32; }},
      {"batch", [](RunRecord& r) { r.config.batch = 5; }},
      {"balance", [](RunRecord& r) { r.config.balance = 0; }},
      {"optimizer.peak_rate", [](RunRecord& r) { r.config.optimizer.peak_rate = 2e-3F; }},
      {"optimizer.last_rate", [](RunRecord& r) { r.config.optimizer.last_rate = 0; }},
      {"optimizer.warm_up", [](RunRecord& r) { r.config.optimizer.warm_up = 7; }},
      {"optimizer.beta1", [](RunRecord& r) { r.config.optimizer.beta1 = 0.8F; }},
      {"optimizer.beta2", [](RunRecord& r) { r.config.optimizer.beta2 = 0.8F; }},
      {"optimizer.epsilon", [](RunRecord& r) { r.config.optimizer.epsilon = 1e-6F; }},
      {"optimizer.decay", [](RunRecord& r) { r.config.optimizer.decay = 0; }},
      {"optimizer.clip", [](RunRecord& r) { r.config.optimizer.clip = 2; }},
      {"optimizer.skips_non_finite", [](RunRecord& r) { r.config.optimizer.skips_non_finite = true; }},
      {"training_sha256", [](RunRecord& r) { r.training_sha256 = "other"; }},
      {"validation_sha256", [](RunRecord& r) { r.validation_sha256 = "other"; }},
      {"validation_sequences", [](RunRecord& r) { r.plan.validation_sequences = 1; }},
      {"evaluations are after other steps", [](RunRecord& r) { r.evaluations[4].step += 1; }},
      {"evaluations are after other steps", [](RunRecord& r) { r.evaluations.pop_back(); }},
  };
  for (const Case& c : cases) {
    std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
    c.change(runs[1].record);
    const std::string text = refusal(runs);
    for (const std::string& part : {c.field, runs[0].file, runs[1].file})
      EXPECT_NE(text.find(part), std::string::npos) << c.field << ": " << text;
  }
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  runs[1].record.config.steps = 300;
  runs[1].record.steps.resize(300);
  expect_contains(refusal(runs), "bf16_1.h5 and mxfp8_1.h5: steps differs, 400 and 300");
}

TEST(Arm, takes_runs_of_other_engines_machines_and_versions) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  runs[1].record.engine = "sm90";
  runs[1].record.device = "another";
  runs[1].record.mxcheck = "2.0";
  EXPECT_EQ(refusal(runs), "");
}

TEST(Arm, takes_the_beginning_of_the_evaluations_of_a_run_that_diverged) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"})};
  runs[1].record.end = RunEnd::diverged;
  runs[1].record.evaluations.resize(2);
  runs[1].record.steps.resize(45);
  EXPECT_EQ(refusal(runs), "");
  runs[1].record.evaluations[1].step = 41;
  EXPECT_NE(refusal(runs), "");
}

TEST(Arm, refuses_a_run_that_is_not_whole) {
  std::vector<NamedRun> runs{made_up_run({})};
  runs[0].record.end = RunEnd::unfinished;
  expect_contains(refusal(runs), "bf16_1.h5: unfinished, 400 of 400 steps");
  runs = {made_up_run({})};
  runs[0].record.steps.pop_back();
  expect_contains(refusal(runs), "finished with 399 steps");
  runs = {made_up_run({})};
  runs[0].record.evaluations.resize(2);
  expect_contains(refusal(runs), "2 evaluations");
}

TEST(Arm, refuses_a_seed_twice_and_one_without_a_partner) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.recipe = "mxfp8"}), made_up_run({.recipe = "mxfp8"})};
  runs[2].file = "again.h5";
  expect_contains(refusal(runs), "mxfp8_1.h5 and again.h5: both are seed 1 of mxfp8");
  runs = {made_up_run({}), made_up_run({.recipe = "mxfp8", .seed = 2})};
  expect_contains(refusal(runs), "mxfp8_2.h5: no run of BF16 has its seed, 2");
}

TEST(Arm, refuses_runs_without_a_baseline) {
  expect_contains(refusal({made_up_run({.recipe = "mxfp8"})}), "no run of the baseline");
  expect_contains(refusal({made_up_run({.perturb = 1})}), "no run of the baseline");
  expect_contains(refusal({}), "no run of the baseline");
}

TEST(Arm, refuses_two_recipes_of_one_name_and_a_baseline_that_quantizes) {
  std::vector<NamedRun> runs{made_up_run({}), made_up_run({.seed = 2}), made_up_run({.recipe = "mxfp8"}),
                             made_up_run({.recipe = "mxfp8_floor", .seed = 2})};
  runs[3].record.config.recipe.name = "mxfp8";
  expect_contains(refusal(runs), "recipe differs, though both call it 'mxfp8'");
  runs = {made_up_run({.recipe = "mxfp8"})};
  runs[0].record.config.recipe.name = "bf16";
  expect_contains(refusal(runs), "recipe 'bf16' quantizes");
}

}  // namespace
}  // namespace mxcheck
