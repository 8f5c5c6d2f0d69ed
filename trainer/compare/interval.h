#pragma once
// Confidence limits of a mean of paired differences by Student's t, and what a number of pairs can see.
//
//   const PairedInterval i = paired_interval(differences, 0.05);   // i.upper: the one-sided 95 % upper limit
//   pairs_needed(0.0010, i.deviation, 0.05, 0.9)                   // pairs whose limit is below the margin in 90 %
//
// A paired t interval is valid whatever the correlation of the pairs, if the differences are normal; it pays for no
// correlation with degrees of freedom alone. Fewer than two pairs have no limits: NaN, with which every comparison
// fails, and a difference that is no number makes all of it NaN.
//
// Errors: Error{usage} for a probability outside of (0, 1) and degrees of freedom below 1.
//
// Does not promise: limits for differences that are far from normal.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "numerics/names.h"

namespace mxcheck {

struct PairedInterval {
  std::int64_t pairs = 0;
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();  // of one difference, with pairs - 1 in the denominator
  double lower = std::numeric_limits<double>::quiet_NaN();      // one-sided, each at 1 - alpha: both together are
  double upper = std::numeric_limits<double>::quiet_NaN();      // an interval at 1 - 2 alpha
};

PairedInterval paired_interval(std::span<const double> differences, double alpha);

// The difference of two independent means, a's less b's, by Welch's interval: deviations may differ. NaN limits where
// either has fewer than two pairs.
struct UnpairedInterval {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double freedom = std::numeric_limits<double>::quiet_NaN();  // degrees of it, by Welch and Satterthwaite
  double lower = std::numeric_limits<double>::quiet_NaN();    // one-sided, as those of a PairedInterval
  double upper = std::numeric_limits<double>::quiet_NaN();
};
UnpairedInterval unpaired_interval(const PairedInterval& a, const PairedInterval& b, double alpha);

// x with P(T <= x) = p for Student's t.
double student_t_quantile(double p, double freedom);

// The probability that the one-sided upper limit of `pairs` differences is below the margin when the true mean is
// `gap` below it and each has this deviation: the noncentral t beyond the quantile. 1 for a deviation of 0.
double power_of(std::int64_t pairs, double gap, double deviation, double alpha);

// The fewest pairs, from 2, that show a true mean of 0 to be below the margin with this power; none below a million.
std::optional<std::int64_t> pairs_needed(double margin, double deviation, double alpha, double power);

// The smallest distance between a true mean and a margin that so many pairs show with this power. NaN for fewer than
// two pairs.
double visible_gap(std::int64_t pairs, double deviation, double alpha, double power);

// Pearson's, of at least three pairs that are not all equal; else NaN.
double correlation_of(std::span<const double> x, std::span<const double> y);

// --- verdicts
//
// The decision rule of docs/parity_rule.md: from the interval of an arm's paired differences, and from what the
// experiment has shown itself able to see, to a verdict in words.
//
//   judge({.interval = paired_interval(d, 0.05)}, 0.0010, sensitivity).verdict == ArmVerdict::non_inferior
//
// Errors: none. A NaN is below and above nothing, so it ends as inconclusive.

enum class ArmVerdict : std::uint8_t { equivalent, non_inferior, inferior, improved, diverged, inconclusive };
inline constexpr std::array<Named<ArmVerdict>, 6> kArmVerdicts{{
    {"equivalent", ArmVerdict::equivalent},
    {"non-inferior", ArmVerdict::non_inferior},
    {"inferior", ArmVerdict::inferior},
    {"improvement beyond the margin", ArmVerdict::improved},
    {"diverged", ArmVerdict::diverged},
    {"inconclusive", ArmVerdict::inconclusive},
}};
inline std::string_view to_text(ArmVerdict verdict) { return name_in(kArmVerdicts, verdict); }

// With three pairs the deviation itself is unknown by a factor of two.
inline constexpr std::int64_t kLeastPairs = 5;

struct ArmEvidence {
  PairedInterval interval;             // of (L_arm - L_bf16) / L_bf16
  std::int64_t diverged = 0;           // runs of the arm
  std::int64_t diverged_baseline = 0;  // runs of BF16
  std::int64_t missing = 0;  // seeds of its experiment that it was not run with: comparison.cc says which these are
};

// Texts are empty where the condition holds, else say why not.
struct Sensitivity {
  std::string without_repeat = "no A/A runs";
  std::string without_control = "no negative control";
  double noise = 0;  // noise_of the A/A runs; 0 without any
};

struct Judgement {
  ArmVerdict verdict = ArmVerdict::inconclusive;
  std::string reason;  // one sentence's end: "the upper limit is below the margin"
};

Judgement judge(const ArmEvidence& arm, double margin, const Sensitivity& sensitivity);

// Why the A/A runs are not equivalent at this margin; why the control was not rejected. Empty where they are and it
// was. A control that diverges is rejected: its loss counts as infinite. A/A runs whose differences are all zero show
// no noise, and nothing about the experiment.
std::string why_not_equivalent(const ArmEvidence& repeat, double margin);
std::string why_not_rejected(const ArmEvidence& control, double margin);

// How far from 0 the limits of A/A reach: gaps up to there come of where runs start, and say nothing of a recipe. 0
// where there is no interval.
double noise_of(const ArmEvidence& repeat);

}  // namespace mxcheck
