#include "trainer/compare/trajectory.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mxcheck {
namespace {

// Steps are counted from 1 here, as evaluations are after so many.
StepCurve binned(const std::vector<RecordedStep>& steps) {
  StepCurve curve;
  const auto n = static_cast<double>(steps.size());
  std::size_t from = 0;
  for (int bin = 1; bin <= kCurveBins && from < steps.size(); ++bin) {
    const double end = std::pow(n, static_cast<double>(bin) / kCurveBins);
    const std::size_t to = bin == kCurveBins ? steps.size() : static_cast<std::size_t>(end);
    if (to <= from) continue;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += value_of(steps[i].loss);
    curve.push_back({static_cast<std::int64_t>((from + 1 + to) / 2), sum / static_cast<double>(to - from)});
    from = to;
  }
  return curve;
}

std::vector<const NamedRun*> whole_runs(const Arm& arm) {
  std::vector<const NamedRun*> whole;
  for (const NamedRun* run : arm.runs) {
    if (!has_diverged(run->record)) whole.push_back(run);
  }
  return whole;
}

std::vector<std::size_t> checkpoint_indices(const std::vector<RecordedEvaluation>& evaluations) {
  std::vector<std::size_t> chosen;
  const auto later = std::ranges::find_if(evaluations, [](const RecordedEvaluation& e) { return e.step > 0; });
  if (later == evaluations.end()) return chosen;
  const auto first = static_cast<double>(later->step);
  const auto last = static_cast<double>(evaluations.back().step);
  for (int k = 0; k < kCheckpoints; ++k) {
    const double target = first * std::pow(last / first, static_cast<double>(k) / (kCheckpoints - 1));
    const auto distance = [&](const RecordedEvaluation& e) {
      return std::abs(std::log(static_cast<double>(e.step) / target));
    };
    const auto nearest = std::ranges::min_element(later, evaluations.end(), {}, distance);
    const auto at = static_cast<std::size_t>(nearest - evaluations.begin());
    if (chosen.empty() || chosen.back() != at) chosen.push_back(at);
  }
  return chosen;
}

// The mean over runs of means of three evaluations, at the last one's step.
StepCurve smoothed(const std::vector<const NamedRun*>& runs) {
  StepCurve curve;
  const auto& steps = runs.front()->record.evaluations;
  for (std::size_t i = kEndpointEvaluations - 1; i < steps.size(); ++i) {
    double sum = 0;
    for (const NamedRun* run : runs) {
      for (std::size_t j = 0; j < kEndpointEvaluations; ++j) sum += value_of(run->record.evaluations[i - j].loss_bf16);
    }
    curve.push_back({steps[i].step, sum / static_cast<double>(runs.size() * kEndpointEvaluations)});
  }
  return curve;
}

}  // namespace

RunCurve curve_of(const NamedRun& run) {
  RunCurve curve{.file = run.file, .seed = run.record.config.seed, .validation = {}, .training = {}};
  for (const RecordedEvaluation& e : run.record.evaluations)
    curve.validation.push_back({e.step, value_of(e.loss_bf16)});
  curve.training = binned(run.record.steps);
  return curve;
}

std::int64_t spikes(std::span<const double> values, double z) {
  std::int64_t count = 0;
  std::vector<double> window;  // a ring
  std::size_t oldest = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      ++count;
      continue;
    }
    if (window.size() < kSpikeWindow) {
      window.push_back(value);
      continue;
    }
    window[oldest] = value;
    oldest = (oldest + 1) % kSpikeWindow;
    double mean = 0;
    for (const double v : window) mean += v / static_cast<double>(kSpikeWindow);
    double variance = 0;  // in two passes: sums of squares cancel where the deviation is small
    for (const double v : window) variance += (v - mean) * (v - mean) / static_cast<double>(kSpikeWindow);
    if (value - mean > z * std::sqrt(variance)) ++count;
  }
  return count;
}

SpikeCount spikes_of(const RunRecord& run, double z) {
  std::vector<double> loss;
  std::vector<double> norm;
  for (const RecordedStep& step : run.steps) {
    loss.push_back(value_of(step.loss));
    norm.push_back(value_of(step.gradient_norm));
  }
  return {.loss = spikes(loss, z), .gradient_norm = spikes(norm, z)};
}

std::vector<CheckpointInterval> checkpoints_of(const Arm& baseline, const Arm& arm, double alpha) {
  std::map<std::uint64_t, const NamedRun*> partner;
  for (const NamedRun* run : whole_runs(baseline)) partner[run->record.config.seed] = run;
  std::vector<const NamedRun*> runs;
  for (const NamedRun* run : whole_runs(arm)) {
    if (partner.contains(run->record.config.seed)) runs.push_back(run);
  }
  std::vector<CheckpointInterval> all;
  if (runs.empty()) return all;
  const auto& evaluations = runs.front()->record.evaluations;
  const std::vector<std::size_t> chosen = checkpoint_indices(evaluations);
  for (const std::size_t at : chosen) {
    std::vector<double> differences;
    for (const NamedRun* run : runs) {
      const double base = value_of(partner[run->record.config.seed]->record.evaluations[at].loss_bf16);
      differences.push_back((value_of(run->record.evaluations[at].loss_bf16) - base) / base);
    }
    all.push_back({evaluations[at].step, paired_interval(differences, alpha / kCheckpoints)});
  }
  return all;
}

std::optional<double> token_equivalents(const Arm& baseline, double gap) {
  const std::vector<const NamedRun*> runs = whole_runs(baseline);
  const bool on_curve = gap >= 0 && !runs.empty();
  if (!on_curve) return std::nullopt;
  const StepCurve curve = smoothed(runs);
  const double target = curve.back().value * (1 + gap);
  const auto tokens = static_cast<double>(runs.front()->record.config.tokens());
  for (std::size_t i = curve.size(); i-- > 0;) {
    if (i + 1 == curve.size() && curve[i].value >= target) return 0;  // a gap of 0
    const bool above = curve[i].value >= target;
    if (!above) continue;
    const StepValue& a = curve[i];
    const StepValue& b = curve[i + 1];
    const double step =
        static_cast<double>(a.step) + static_cast<double>(b.step - a.step) * (a.value - target) / (a.value - b.value);
    return (static_cast<double>(curve.back().step) - step) * tokens;
  }
  return std::nullopt;
}

}  // namespace mxcheck
