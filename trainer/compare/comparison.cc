#include "trainer/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace mxcheck {
namespace {

void check(const ComparisonOptions& o) {
  const bool margins = o.margin > 0 && o.margin <= o.outer_margin && o.outer_margin < 1;
  if (!margins)
    throw Error(ErrorKind::usage, "margins: 0 < margin <= outer margin < 1 is right, as shares of the loss");
  const bool probabilities = o.alpha > 0 && o.alpha < 0.5 && o.power > 0.5 && o.power < 1;
  if (!probabilities) throw Error(ErrorKind::usage, "alpha is between 0 and 0.5, power between 0.5 and 1");
  const bool spike = o.spike > 0;
  if (!spike) throw Error(ErrorKind::usage, "the z-score of a spike is above 0");
}

std::vector<SeedPair> pairs_of(const Arm& baseline, const Arm& arm) {
  std::map<std::uint64_t, double> endpoints;
  std::map<std::uint64_t, double> training;
  for (const NamedRun* run : baseline.runs) {
    endpoints[run->record.config.seed] = endpoint_of(run->record);
    training[run->record.config.seed] = training_endpoint_of(run->record);
  }
  std::vector<SeedPair> pairs;
  for (const NamedRun* run : arm.runs) {
    SeedPair p;
    p.seed = run->record.config.seed;
    p.baseline = endpoints.at(p.seed);
    p.arm = endpoint_of(run->record);
    p.own = own_endpoint_of(run->record);
    p.difference = (p.arm - p.baseline) / p.baseline;
    p.training = (training_endpoint_of(run->record) - training.at(p.seed)) / training.at(p.seed);
    pairs.push_back(p);
  }
  return pairs;
}

std::int64_t diverged_in(const Arm& arm) {
  return std::ranges::count_if(arm.runs, [](const NamedRun* run) { return has_diverged(run->record); });
}

// Intervals are of the pairs that have both endpoints; the others are counted as diverged, which decides before them.
void add_statistics(const Arm& baseline, const Arm& arm, const ComparisonOptions& o, ArmResult& r) {
  std::vector<double> d;
  std::vector<double> own;
  std::vector<double> training;
  std::vector<double> x;
  std::vector<double> y;
  for (const SeedPair& p : r.pairs) {
    if (!std::isfinite(p.difference)) continue;
    d.push_back(p.difference);
    own.push_back((p.own - p.baseline) / p.baseline);
    training.push_back(p.training);
    x.push_back(p.baseline);
    y.push_back(p.arm);
  }
  r.evidence.interval = paired_interval(d, o.alpha);
  r.evidence.diverged = diverged_in(arm);
  r.evidence.diverged_baseline = diverged_in(baseline);
  r.evidence.missing = static_cast<std::int64_t>(baseline.runs.size() - arm.runs.size());
  r.own = paired_interval(own, o.alpha);
  r.training = paired_interval(training, o.alpha);
  r.correlation = correlation_of(x, y);
  r.token_equivalents = token_equivalents(baseline, r.evidence.interval.mean);
  r.pairs_needed = pairs_needed(o.margin, r.evidence.interval.deviation, o.alpha, o.power);
  if (r.pairs_needed) r.pairs_needed = std::max(*r.pairs_needed, kLeastPairs);
  r.visible_gap = visible_gap(r.evidence.interval.pairs, r.evidence.interval.deviation, o.alpha, o.power);
}

std::string scales_of(const LayerRecipe& recipe) {
  const OperandRule& a = recipe.gemm(LayerGemm::up).a;
  if (!a.quantized()) return "";
  return std::string(spec(a.format).name) + ", scales " + a.scales;
}

ArmResult result_of(const Arm& baseline, const Arm& arm, const ComparisonOptions& o) {
  ArmResult r;
  r.name = arm.name;
  r.role = arm.role;
  r.scales = scales_of(arm.runs.front()->record.config.recipe);
  r.pairs = pairs_of(baseline, arm);
  add_statistics(baseline, arm, o, r);
  r.checkpoints = checkpoints_of(baseline, arm, o.alpha);
  r.observed = observed_of(arm);
  for (const NamedRun* run : arm.runs) {
    const SpikeCount spikes = spikes_of(run->record, o.spike);
    r.spikes.loss += spikes.loss;
    r.spikes.gradient_norm += spikes.gradient_norm;
    r.curves.push_back(curve_of(*run));
  }
  return r;
}

// Every arm of a role must meet its condition: of two controls both are to be rejected.
std::string first_reason(const std::vector<ArmResult>& arms, ArmRole role, double margin, const std::string& without,
                         const std::function<std::string(const ArmEvidence&, double)>& why) {
  bool any = false;
  for (const ArmResult& arm : arms) {
    if (arm.role != role) continue;
    any = true;
    std::string reason = why(arm.evidence, margin);
    if (!reason.empty()) return reason;
  }
  return any ? "" : without;
}

Sensitivity sensitivity_of(const std::vector<ArmResult>& arms, double margin) {
  const Sensitivity none;
  double noise = 0;
  for (const ArmResult& arm : arms) {
    if (arm.role == ArmRole::repeat) noise = std::max(noise, noise_of(arm.evidence));
  }
  return {first_reason(arms, ArmRole::repeat, margin, none.without_repeat, why_not_equivalent),
          first_reason(arms, ArmRole::control, margin, none.without_control, why_not_rejected), noise};
}

// A/A and the control are conditions of the others' verdicts: their own ask for one another's alone.
Judgement judgement_of(const ArmResult& arm, double margin, Sensitivity s) {
  if (arm.role == ArmRole::baseline) return {ArmVerdict::equivalent, "what the others are compared with"};
  ArmEvidence evidence = arm.evidence;
  if (arm.role != ArmRole::judged) {
    s = {"", "", 0};
    evidence.missing = 0;
    if (arm.role == ArmRole::repeat && evidence.interval.deviation == 0 && evidence.interval.mean == 0)
      s.without_repeat = why_not_equivalent(evidence, margin);
  }
  return judge(evidence, margin, s);
}

void add_baseline(const Arm& baseline, ParityComparison& c) {
  const RunRecord& first = baseline.runs.front()->record;
  c.config = first.config;
  c.corpus = first.corpus;
  c.parameters = parameter_count(first.config.model);
  c.tokens = first.config.tokens() * first.config.steps;
  c.validation_tokens = first.plan.validation_sequences * first.config.model.length;
  std::vector<double> endpoints;
  for (const NamedRun* run : baseline.runs) {
    const double endpoint = endpoint_of(run->record);
    if (std::isfinite(endpoint)) endpoints.push_back(endpoint);
  }
  const PairedInterval i = paired_interval(endpoints, c.options.alpha);
  c.baseline_mean = i.mean;
  c.baseline_deviation = i.deviation / i.mean;
}

void list_runs(const std::vector<Arm>& arms, ParityComparison& c) {
  for (const Arm& arm : arms) {
    for (const NamedRun* run : arm.runs) {
      const RunRecord& r = run->record;
      c.runs.push_back({.file = run->file,
                        .arm = arm.name,
                        .started = r.started,
                        .device = r.device,
                        .engine = r.engine,
                        .mxcheck = r.mxcheck,
                        .seed = r.config.seed,
                        .end = r.end,
                        .endpoint = endpoint_of(r),
                        .hours = r.seconds / 3600});
    }
  }
  std::ranges::stable_sort(c.runs, {}, &ListedRun::started);
}

}  // namespace

ParityComparison compare_runs(std::span<const NamedRun> runs, const ComparisonOptions& options) {
  check(options);
  const std::vector<Arm> arms = arms_of(runs);
  ParityComparison c;
  c.options = options;
  add_baseline(arms.front(), c);
  for (const Arm& arm : arms) c.arms.push_back(result_of(arms.front(), arm, options));
  c.sensitivity = sensitivity_of(c.arms, options.margin);
  const Sensitivity outer = sensitivity_of(c.arms, options.outer_margin);
  for (ArmResult& arm : c.arms) {
    arm.judgement = judgement_of(arm, options.margin, c.sensitivity);
    arm.outer = judgement_of(arm, options.outer_margin, outer);
  }
  list_runs(arms, c);
  return c;
}

int exit_code(const ParityComparison& comparison) {
  bool judged = false;
  bool inconclusive = false;
  for (const ArmResult& arm : comparison.arms) {
    if (arm.role != ArmRole::judged) continue;
    judged = true;
    switch (arm.judgement.verdict) {
      case ArmVerdict::equivalent:
      case ArmVerdict::non_inferior: break;
      case ArmVerdict::inconclusive: inconclusive = true; break;
      case ArmVerdict::inferior:
      case ArmVerdict::improved:
      case ArmVerdict::diverged: return 1;
    }
  }
  return judged && !inconclusive ? 0 : 4;
}

}  // namespace mxcheck
