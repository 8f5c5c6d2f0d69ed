#include "trainer/report/words.h"

#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "numerics/text.h"

namespace mxcheck {
namespace {

// Versions and engines that computed an arm and the baseline.
std::string computed_by(const ParityComparison& c, const std::string& arm) {
  std::set<std::string> all;
  for (const ListedRun& run : c.runs) {
    if (run.arm == arm || run.arm == c.arms.front().name) all.insert(run.mxcheck + ", engine " + run.engine);
  }
  return join(all, "; ");
}

// The result of the negative control at the branch point of the arm that is spoken of; empty: there is no control.
std::string control_text(const ParityComparison& c, std::int64_t branch_step) {
  for (const ArmResult& arm : c.arms) {
    if (arm.role != ArmRole::control || arm.branch_step != branch_step) continue;
    if (arm.evidence.diverged > 0) return "negative control diverged and was rejected";
    return fmt::format("negative control gap {} was rejected", signed_percent(arm.evidence.interval.mean));
  }
  return "";
}

// Seeds are those of any arm of the branch point: those of BF16 that none has are seen here alone.
std::string seeds_text(const ParityComparison& c, std::int64_t branch_step, const std::string& where) {
  std::set<std::uint64_t> seeds;
  for (const ArmResult& arm : c.arms) {
    if (arm.branch_step != branch_step || arm.role == ArmRole::baseline) continue;
    for (const SeedPair& pair : arm.pairs) seeds.insert(pair.seed);
  }
  return fmt::format("Seeds{}: {} of the {} of BF16.", where, seeds.size(), c.arms.front().pairs.size());
}

std::string noise_text(const ParityComparison& c) {
  return fmt::format(
      "Noise: the standard deviation of BF16's endpoint over seeds is {} of its mean {}; the margin is {} such "
      "deviations.",
      share_text(c.baseline_deviation), decimal(c.baseline_mean, 4),
      decimal(c.options.margin / c.baseline_deviation, 2));
}

}  // namespace

std::string branch_words(const ParityComparison& c, std::int64_t step) {
  const bool is_alone = step == 0 && c.sensitivities.size() <= 1;
  return is_alone ? "" : " from " + branch_point(step, c.config.steps);
}

std::string decimal(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string signed_percent(double share) { return std::isfinite(share) ? fmt::format("{:+.4f} %", 100 * share) : "-"; }

std::string share_text(double share) {
  if (!std::isfinite(share)) return "-";
  return share < 0.01 ? fmt::format("{:.4f} %", 100 * share) : fmt::format("{:.2f} %", 100 * share);
}

namespace {

std::string limits(double lower, double upper) {
  if (!std::isfinite(lower) || !std::isfinite(upper)) return "-";
  return fmt::format("[{:+.4f}, {:+.4f}] %", 100 * lower, 100 * upper);
}

}  // namespace

std::string limits(const PairedInterval& i) { return limits(i.lower, i.upper); }
std::string limits(const UnpairedInterval& i) { return limits(i.lower, i.upper); }

std::string amount(double count) {
  if (!std::isfinite(count)) return "-";
  if (std::abs(count) >= 1e9) return fmt::format("{:.3g} G", count / 1e9);
  if (std::abs(count) >= 1e6) return fmt::format("{:.3g} M", count / 1e6);
  if (std::abs(count) >= 1e3) return fmt::format("{:.3g} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string allowed_sentence(const ParityComparison& c, const ArmResult& arm) {
  const ArmVerdict v = arm.judgement.verdict;
  if (arm.role != ArmRole::judged || (v != ArmVerdict::non_inferior && v != ArmVerdict::equivalent)) return "";
  const PairedInterval& i = arm.evidence.interval;
  return fmt::format(
      "At {} parameters, {} tokens, {} seeds per arm, {} ({}{}) is non-inferior to BF16{}: mean relative loss gap {}, "
      "one-sided {:.3g} % upper limit {} < margin {}; {}.",
      amount(static_cast<double>(c.parameters)), amount(static_cast<double>(c.tokens)), i.pairs, arm.name,
      arm.scales.empty() ? "" : arm.scales + "; ", computed_by(c, arm.name),
      v == ArmVerdict::equivalent ? ", and equivalent within the margin" : "", signed_percent(i.mean),
      100 * (1 - c.options.alpha), signed_percent(i.upper), share_text(c.options.margin),
      control_text(c, arm.branch_step));
}

std::string summary_line(const ParityComparison& c) {
  std::map<ArmVerdict, int> counts;
  int judged = 0;
  int graded = 0;
  for (const ArmResult& arm : c.arms) {
    graded += arm.role == ArmRole::graded ? 1 : 0;
    if (arm.role != ArmRole::judged) continue;
    ++judged;
    ++counts[arm.judgement.verdict];
  }
  if (judged == 0) return "inconclusive: no arm but BF16, A/A and controls";
  const auto text = [](const auto& entry) { return fmt::format("{} {}", entry.second, to_text(entry.first)); };
  const std::string beside =
      graded == 0 ? "" : fmt::format("; beside {} graded control{}", graded, graded == 1 ? "" : "s");
  return fmt::format("{} judged {}: {}{}", judged, judged == 1 ? "arm" : "arms", join(counts, ", ", text), beside);
}

std::vector<std::string> decision_lines(const ParityComparison& c) {
  const ComparisonOptions& o = c.options;
  std::vector<std::string> lines{
      fmt::format("Endpoint: mean loss of the last {} evaluations, {} validation tokens each; the weights of every arm "
                  "are evaluated under BF16.",
                  kEndpointEvaluations, amount(static_cast<double>(c.validation_tokens))),
      "Unit: the seed, which fixes initial weights and the order of data. d = (L_arm - L_bf16) / L_bf16 of two runs "
      "that share it; a paired t interval, whatever the correlation.",
      fmt::format("Non-inferior: the one-sided {:.3g} % upper limit of mean d is below the margin {}, with {} pairs or "
                  "more, the negative control rejected and A/A equivalent.",
                  100 * (1 - o.alpha), share_text(o.margin), kLeastPairs),
      fmt::format("Inner and outer bar: the same rule at {} and at {}; they do not decide.",
                  share_text(o.inner_margin.value()), share_text(o.outer_margin)),
  };
  if (!o.graded.empty())
    lines.push_back(
        fmt::format("Graded controls, named by whoever compared: {}. Their gaps are known roughly; their "
                    "verdicts decide nothing. The rule asks that they are named before the runs.",
                    join(o.graded, ", ")));
  for (const auto& [step, s] : c.sensitivities) {
    const std::string where = branch_words(c, step);
    lines.push_back(seeds_text(c, step, where));
    lines.push_back(s.without_control.empty() ? fmt::format("Negative control{}: rejected, as it must be.", where)
                                              : fmt::format("Condition not met{}: {}.", where, s.without_control));
    lines.push_back(s.without_repeat.empty() ? fmt::format("A/A{}: equivalent, as it must be.", where)
                                             : fmt::format("Condition not met{}: {}.", where, s.without_repeat));
  }
  lines.push_back(noise_text(c));
  lines.emplace_back(
      "A run that diverged is never dropped: it decides before any interval. All runs that were given are listed.");
  lines.emplace_back(
      "A verdict holds at this scale: differences of low precision were seen to appear late in long runs.");
  return lines;
}

}  // namespace mxcheck
