#include "trainer/compare/verdict.h"

#include <gtest/gtest.h>

namespace mxcheck {
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
        Case{missing, kSensitive, "2 seeds of BF16 not run"}, Case{good, {"no A/A runs", ""}, "no A/A runs"},
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

}  // namespace
}  // namespace mxcheck
