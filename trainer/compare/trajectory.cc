#include "trainer/compare/trajectory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "trainer/compare/interval.h"

namespace mxcheck {
namespace {

// Steps are counted from 1 here, as evaluations are after so many. `before`: steps of the trunk.
StepCurve binned(const std::vector<RecordedStep>& steps, std::int64_t before) {
  StepCurve curve;
  const auto n = static_cast<double>(steps.size());
  std::size_t from = 0;
  for (int bin = 1; bin <= kCurveBins && from < steps.size(); ++bin) {
    const double end = std::pow(n, static_cast<double>(bin) / kCurveBins);
    const std::size_t to = bin == kCurveBins ? steps.size() : static_cast<std::size_t>(end);
    if (to <= from) continue;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += value_of(steps[i].loss);
    curve.push_back({before + static_cast<std::int64_t>((from + 1 + to) / 2), sum / static_cast<double>(to - from)});
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

// Evaluations at steps in about equal ratios; of a branch the ratios are those of the steps since its trunk.
std::vector<std::size_t> checkpoint_indices(const std::vector<RecordedEvaluation>& evaluations, std::int64_t branch) {
  std::vector<std::size_t> chosen;
  const auto later = std::ranges::find_if(evaluations, [&](const RecordedEvaluation& e) { return e.step > branch; });
  if (later == evaluations.end()) return chosen;
  const auto first = static_cast<double>(later->step - branch);
  const auto last = static_cast<double>(evaluations.back().step - branch);
  for (int k = 0; k < kCheckpoints; ++k) {
    const double target = first * std::pow(last / first, static_cast<double>(k) / (kCheckpoints - 1));
    const auto distance = [&](const RecordedEvaluation& e) {
      return std::abs(std::log(static_cast<double>(e.step - branch) / target));
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

// Two runs of one seed, neither of which diverged.
struct WholePair {
  const RunRecord* baseline;
  const RunRecord* arm;
};

std::vector<WholePair> whole_pairs(const Arm& baseline, const Arm& arm) {
  std::map<std::uint64_t, const RunRecord*> partner;
  for (const NamedRun* run : whole_runs(baseline)) partner[run->record.config.seed] = &run->record;
  std::vector<WholePair> pairs;
  for (const NamedRun* run : whole_runs(arm)) {
    const auto found = partner.find(run->record.config.seed);
    if (found != partner.end()) pairs.push_back({found->second, &run->record});
  }
  return pairs;
}

double loss_after(const RunRecord& run, std::int64_t step) {
  return value_of(std::ranges::lower_bound(run.evaluations, step, {}, &RecordedEvaluation::step)->loss_bf16);
}

CheckpointInterval interval_after(const std::vector<WholePair>& pairs, std::int64_t step, double alpha) {
  std::vector<double> differences;
  for (const WholePair& pair : pairs) {
    const double base = loss_after(*pair.baseline, step);
    differences.push_back((loss_after(*pair.arm, step) - base) / base);
  }
  return {step, paired_interval(differences, alpha)};
}

// Steps from `from` to `to`, the latter excluded.
struct StepBin {
  std::int64_t from;
  std::int64_t to;
  // Counted from 1, as evaluations are after so many.
  [[nodiscard]] std::int64_t middle() const { return (from + 1 + to) / 2; }
};

std::vector<StepBin> even_bins(std::int64_t from, std::int64_t to, std::int64_t count) {
  std::vector<StepBin> bins;
  for (std::int64_t i = 0; i < count; ++i) {
    const StepBin bin{from + (to - from) * i / count, from + (to - from) * (i + 1) / count};
    if (bin.from < bin.to) bins.push_back(bin);
  }
  return bins;
}

double training_loss_in(const RunRecord& run, const StepBin& bin) {
  double sum = 0;
  for (std::int64_t step = bin.from; step < bin.to; ++step) sum += value_of(run.step(step).loss);
  return sum / static_cast<double>(bin.to - bin.from);
}

}  // namespace

RunCurve curve_of(const NamedRun& run) {
  RunCurve curve{.file = run.file, .seed = run.record.config.seed, .validation = {}, .training = {}};
  for (const RecordedEvaluation& e : run.record.evaluations)
    curve.validation.push_back({e.step, value_of(e.loss_bf16)});
  curve.training = binned(run.record.steps, run.record.first_step());
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
  const std::vector<WholePair> pairs = whole_pairs(baseline, arm);
  std::vector<CheckpointInterval> all;
  if (pairs.empty()) return all;
  const auto& evaluations = pairs.front().arm->evaluations;
  for (const std::size_t at : checkpoint_indices(evaluations, arm.branch_step))
    all.push_back(interval_after(pairs, evaluations[at].step, alpha / kCheckpoints));
  return all;
}

std::vector<CheckpointInterval> differences_of(const Arm& baseline, const Arm& arm, double alpha) {
  const std::vector<WholePair> pairs = whole_pairs(baseline, arm);
  std::vector<CheckpointInterval> all;
  if (pairs.empty()) return all;
  for (const RecordedEvaluation& e : pairs.front().arm->evaluations)
    all.push_back(interval_after(pairs, e.step, alpha));
  return all;
}

TrainingCurves training_curves_of(const Arm& baseline, const Arm& arm, double alpha) {
  TrainingCurves curves;
  const std::vector<WholePair> pairs = whole_pairs(baseline, arm);
  if (pairs.empty()) return curves;
  const std::int64_t first = arm.branch_step;
  const std::int64_t steps = pairs.front().arm->config.steps;
  const std::int64_t before = kTrainingBins * first / steps;
  const auto n = static_cast<double>(pairs.size());
  for (const StepBin& bin : even_bins(0, first, before)) {
    double sum = 0;
    for (const WholePair& pair : pairs) sum += training_loss_in(*pair.baseline, bin);
    curves.baseline.push_back({bin.middle(), sum / n});
  }
  for (const StepBin& bin : even_bins(first, steps, kTrainingBins - before)) {
    std::vector<double> differences;
    double sum = 0;
    double sum_of_arm = 0;
    for (const WholePair& pair : pairs) {
      const double base = training_loss_in(*pair.baseline, bin);
      const double loss = training_loss_in(*pair.arm, bin);
      sum += base;
      sum_of_arm += loss;
      differences.push_back((loss - base) / base);
    }
    curves.baseline.push_back({bin.middle(), sum / n});
    curves.arm.push_back({bin.middle(), sum_of_arm / n});
    curves.difference.push_back({bin.middle(), paired_interval(differences, alpha)});
  }
  return curves;
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
