#pragma once
// The decision rule of docs/parity_rule.md: from the interval of an arm's paired differences, and from what the
// experiment has shown itself able to see, to a verdict in words.
//
//   judge({.interval = paired_interval(d, 0.05)}, 0.0010, sensitivity).verdict == ArmVerdict::non_inferior
//
// Errors: none. A NaN is below and above nothing, so it ends as inconclusive.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "numerics/names.h"
#include "trainer/compare/interval.h"

namespace mxcheck {

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
