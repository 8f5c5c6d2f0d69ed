#include "trainer/compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "numerics/text.h"

namespace mxcheck {
namespace {

std::string percent(double share) { return fmt::format("{:+.4f} %", 100 * share); }

std::string too_few(std::int64_t pairs) {
  return fmt::format("{} pair{} of at least {}", pairs, pairs == 1 ? "" : "s", kLeastPairs);
}

// What stands between an interval below the margin and the word non-inferior.
std::vector<std::string> unmet(const ArmEvidence& arm, const Sensitivity& sensitivity) {
  std::vector<std::string> all;
  if (arm.interval.pairs < kLeastPairs) all.push_back(too_few(arm.interval.pairs));
  if (arm.missing > 0)
    all.push_back(fmt::format("{} seed{} of BF16 not run", arm.missing, arm.missing == 1 ? "" : "s"));
  if (!sensitivity.without_repeat.empty()) all.push_back(sensitivity.without_repeat);
  if (!sensitivity.without_control.empty()) all.push_back(sensitivity.without_control);
  return all;
}

}  // namespace

Judgement judge(const ArmEvidence& arm, double margin, const Sensitivity& sensitivity) {
  const PairedInterval& i = arm.interval;
  if (arm.diverged_baseline > 0)
    return {ArmVerdict::inconclusive,
            fmt::format("BF16 itself diverged in {} run{}: the configuration is not one to compare recipes with",
                        arm.diverged_baseline, arm.diverged_baseline == 1 ? "" : "s")};
  if (arm.diverged > 0)
    return {ArmVerdict::diverged,
            fmt::format("{} run{} diverged, none of BF16", arm.diverged, arm.diverged == 1 ? "" : "s")};
  const double nearest = i.lower > margin ? i.lower : i.upper < -margin ? -i.upper : 0;
  if (nearest > 0 && nearest <= sensitivity.noise)
    return {
        ArmVerdict::inconclusive,
        fmt::format("the limit {} is beyond the margin, and no further than noise between runs: A/A reaches {:.4f} %",
                    percent(i.lower > margin ? i.lower : i.upper), 100 * sensitivity.noise)};
  if (i.lower > margin)
    return {ArmVerdict::inferior,
            fmt::format("the lower limit {} is above the margin {}", percent(i.lower), percent(margin))};
  if (i.upper < -margin)
    return {ArmVerdict::improved,
            fmt::format("the upper limit {} is below {}: a bug until explained", percent(i.upper), percent(-margin))};
  if (i.upper < margin) {
    const std::vector<std::string> conditions = unmet(arm, sensitivity);
    if (!conditions.empty()) return {ArmVerdict::inconclusive, join(conditions, "; ")};
    const std::string gap = i.lower > 0 ? "; a gap clearly above zero, and below the margin" : "";
    if (i.lower > -margin)
      return {ArmVerdict::equivalent, fmt::format("the limits {} and {} are inside +-{:.4f} %{}", percent(i.lower),
                                                  percent(i.upper), 100 * margin, gap)};
    return {ArmVerdict::non_inferior,
            fmt::format("the upper limit {} is below the margin {}", percent(i.upper), percent(margin))};
  }
  if (i.pairs < 2) return {ArmVerdict::inconclusive, too_few(i.pairs) + ": no interval"};
  return {ArmVerdict::inconclusive,
          fmt::format("the margin {} is between the limits {} and {}: more pairs, or less noise", percent(margin),
                      percent(i.lower), percent(i.upper))};
}

std::string why_not_equivalent(const ArmEvidence& repeat, double margin) {
  const PairedInterval& i = repeat.interval;
  if (repeat.diverged > 0) return fmt::format("A/A: {} diverged", repeat.diverged);
  if (i.pairs < kLeastPairs) return "A/A: " + too_few(i.pairs);
  if (i.deviation == 0 && i.mean == 0) return "A/A: every run equals BF16's, which shows no noise";
  if (i.lower > -margin && i.upper < margin) return "";
  return fmt::format("A/A: the limits {} and {} are not inside +-{:.4f} %", percent(i.lower), percent(i.upper),
                     100 * margin);
}

double noise_of(const ArmEvidence& repeat) {
  const double reach = std::max(std::abs(repeat.interval.lower), std::abs(repeat.interval.upper));
  return repeat.interval.pairs >= 2 && std::isfinite(reach) ? reach : 0;
}

std::string why_not_rejected(const ArmEvidence& control, double margin) {
  if (control.diverged > 0 || control.interval.lower > margin) return "";
  if (control.interval.pairs < 2) return "negative control: " + too_few(control.interval.pairs);
  return fmt::format("negative control: not rejected, its lower limit {} is not above the margin {}",
                     percent(control.interval.lower), percent(margin));
}

}  // namespace mxcheck
