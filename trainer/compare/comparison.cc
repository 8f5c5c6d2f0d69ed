#include "trainer/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "numerics/text.h"
#include "trainer/compare/interval.h"
#include "trainer/data/corpus.h"

namespace mxcheck {
namespace {

// A margin below the usual inner one is the inner one, too.
double inner_margin_of(const ComparisonOptions& o) {
  constexpr double kUsual = 0.0005;
  return o.inner_margin.value_or(std::min(kUsual, o.margin));
}

void check(const ComparisonOptions& o) {
  const double inner = inner_margin_of(o);
  const bool margins = inner > 0 && inner <= o.margin && o.margin <= o.outer_margin && o.outer_margin < 1;
  if (!margins)
    throw Error(ErrorKind::usage,
                fmt::format("inner margin {}, margin {}, outer margin {} (--inner-margin, --margin, --outer-margin): "
                            "0 < inner <= margin <= outer < 1 is right, as shares of the loss",
                            inner, o.margin, o.outer_margin));
  const bool probabilities = o.alpha > 0 && o.alpha < 0.5 && o.power > 0.5 && o.power < 1;
  if (!probabilities) throw Error(ErrorKind::usage, "alpha is between 0 and 0.5, power between 0.5 and 1");
  const bool spike = o.spike > 0;
  if (!spike) throw Error(ErrorKind::usage, "the z-score of a spike is above 0");
}

std::vector<SeedPair> pairs_of(const Arm& baseline, const Arm& arm) {
  std::map<std::uint64_t, const RunRecord*> partner;
  for (const NamedRun* run : baseline.runs) partner[run->record.config.seed] = &run->record;
  std::vector<SeedPair> pairs;
  for (const NamedRun* run : arm.runs) {
    SeedPair p;
    p.seed = run->record.config.seed;
    const RunRecord& of = *partner.at(p.seed);
    const std::size_t most = run->record.steps.size();
    const double training = training_endpoint_of(of, most);
    p.baseline = endpoint_of(of);
    p.arm = endpoint_of(run->record);
    p.own = own_endpoint_of(run->record);
    p.difference = (p.arm - p.baseline) / p.baseline;
    p.training = (training_endpoint_of(run->record, most) - training) / training;
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
  r.own = paired_interval(own, o.alpha);
  r.training = paired_interval(training, o.alpha);
  r.correlation = correlation_of(x, y);
  r.token_equivalents = token_equivalents(baseline, r.evidence.interval.mean);
  r.pairs_needed = pairs_needed(o.margin, r.evidence.interval.deviation, o.alpha, o.power);
  if (r.pairs_needed) r.pairs_needed = std::max(*r.pairs_needed, kLeastPairs);
  r.visible_gap = visible_gap(r.evidence.interval.pairs, r.evidence.interval.deviation, o.alpha, o.power);
}

// Seeds that other arms of the branch point, but graded controls, were run with and this one was not; from scratch also
// those of BF16's runs that nothing branches off from: the others may be trunks alone. An arm that is alone from
// scratch has all of BF16's.
std::int64_t missing_seeds(const std::vector<Arm>& arms, const Arm& arm) {
  if (arm.role == ArmRole::baseline) return 0;
  std::set<std::uint64_t> seeds;
  const auto add = [&](const Arm& other) {
    for (const NamedRun* run : other.runs) seeds.insert(run->record.config.seed);
  };
  for (const Arm& other : arms) {
    const bool counts = other.role != ArmRole::baseline && other.role != ArmRole::graded;
    const bool is_beside = other.branch_step == arm.branch_step && counts;
    if (is_beside && &other != &arm) add(other);
  }
  if (arm.branch_step == 0) {
    std::set<std::uint64_t> trunks;
    for (const Arm& other : arms) {
      for (const NamedRun* run : other.runs) {
        if (other.branch_step > 0) trunks.insert(run->record.config.seed);
      }
    }
    const bool is_alone = seeds.empty();
    for (const NamedRun* run : arms.front().runs) {
      const std::uint64_t seed = run->record.config.seed;
      if (is_alone || !trunks.contains(seed)) seeds.insert(seed);
    }
  }
  for (const NamedRun* run : arm.runs) seeds.erase(run->record.config.seed);
  return static_cast<std::int64_t>(seeds.size());
}

std::string scales_of(const LayerRecipe& recipe) {
  const OperandRule& a = recipe.gemm(LayerGemm::up).a;
  if (!a.quantized()) return "";
  return std::string(spec(a.format).name) + ", scales " + a.scales;
}

ArmResult result_of(const std::vector<Arm>& arms, const Arm& arm, const ComparisonOptions& o) {
  const Arm& baseline = arms.front();
  ArmResult r;
  r.name = arm.name;
  r.recipe = arm.recipe;
  r.role = arm.role;
  r.branch_step = arm.branch_step;
  r.layers = arm.runs.front()->record.config.recipe;
  r.scales = scales_of(r.layers);
  r.pairs = pairs_of(baseline, arm);
  add_statistics(baseline, arm, o, r);
  r.evidence.missing = missing_seeds(arms, arm);
  r.cost = cost_of(arm);
  r.checkpoints = checkpoints_of(baseline, arm, o.alpha);
  r.differences = differences_of(baseline, arm, o.alpha);
  r.training_curves = training_curves_of(baseline, arm, o.alpha);
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
std::string first_reason(const std::vector<const ArmResult*>& arms, ArmRole role, double margin,
                         const std::string& without,
                         const std::function<std::string(const ArmEvidence&, double)>& why) {
  bool any = false;
  for (const ArmResult* arm : arms) {
    if (arm->role != role) continue;
    any = true;
    std::string reason = why(arm->evidence, margin);
    if (!reason.empty()) return reason;
  }
  return any ? "" : without;
}

Sensitivity sensitivity_of(const std::vector<const ArmResult*>& arms, double margin) {
  const Sensitivity none;
  double noise = 0;
  for (const ArmResult* arm : arms) {
    if (arm->role == ArmRole::repeat) noise = std::max(noise, noise_of(arm->evidence));
  }
  return {first_reason(arms, ArmRole::repeat, margin, none.without_repeat, why_not_equivalent),
          first_reason(arms, ArmRole::control, margin, none.without_control, why_not_rejected), noise};
}

// By the step that arms branch off after.
std::map<std::int64_t, Sensitivity> sensitivities_of(const std::vector<ArmResult>& arms, double margin) {
  std::map<std::int64_t, std::vector<const ArmResult*>> groups;
  for (const ArmResult& arm : arms) groups[arm.branch_step].push_back(&arm);
  std::map<std::int64_t, Sensitivity> all;
  for (const auto& [step, group] : groups) all[step] = sensitivity_of(group, margin);
  return all;
}

// A/A and the control are conditions of the others' verdicts: their own ask for one another's alone.
Judgement judgement_of(const ArmResult& arm, double margin, Sensitivity s) {
  if (arm.role == ArmRole::baseline) return {ArmVerdict::equivalent, "what the others are compared with"};
  ArmEvidence evidence = arm.evidence;
  if (!is_ranked(arm)) {
    s = {"", "", 0};
    evidence.missing = 0;
    if (arm.role == ArmRole::repeat && evidence.interval.deviation == 0 && evidence.interval.mean == 0)
      s.without_repeat = why_not_equivalent(evidence, margin);
  }
  return judge(evidence, margin, s);
}

void mark_graded(std::vector<Arm>& arms, const std::string& recipe) {
  bool found = false;
  std::set<std::string> others;
  for (Arm& arm : arms) {
    if (arm.role != ArmRole::judged && arm.role != ArmRole::graded) continue;
    others.insert(arm.recipe);
    if (arm.recipe != recipe) continue;
    arm.role = ArmRole::graded;
    found = true;
  }
  if (!found)
    throw Error(ErrorKind::usage, fmt::format("graded control '{}': no judged arm has that recipe; those that are: {}",
                                              recipe, others.empty() ? "none" : join(others, ", ")));
}

void add_baseline(const Arm& baseline, ParityComparison& c) {
  const RunRecord& first = baseline.runs.front()->record;
  c.config = first.config;
  const std::string known = known_text(first.training_sha256, first.validation_sha256);
  c.corpus = known.empty() ? first.corpus : known;  // a known text may have been given by its path
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
  std::vector<Arm> arms = arms_of(runs);
  for (const std::string& recipe : options.graded) mark_graded(arms, recipe);
  ParityComparison c;
  c.options = options;
  const double inner_margin = inner_margin_of(options);
  c.options.inner_margin = inner_margin;
  add_baseline(arms.front(), c);
  for (const Arm& arm : arms) c.arms.push_back(result_of(arms, arm, options));
  c.sensitivities = sensitivities_of(c.arms, options.margin);
  const auto inner = sensitivities_of(c.arms, inner_margin);
  const auto outer = sensitivities_of(c.arms, options.outer_margin);
  for (ArmResult& arm : c.arms) {
    arm.judgement = judgement_of(arm, options.margin, c.sensitivities.at(arm.branch_step));
    arm.inner = judgement_of(arm, inner_margin, inner.at(arm.branch_step));
    arm.outer = judgement_of(arm, options.outer_margin, outer.at(arm.branch_step));
  }
  // Where every arm is a branch nothing is judged from scratch.
  const auto is_alone = [&](const ArmResult& arm) { return arm.branch_step != 0 || arm.role == ArmRole::baseline; };
  if (c.sensitivities.size() > 1 && std::ranges::all_of(c.arms, is_alone)) c.sensitivities.erase(0);
  list_runs(arms, c);
  return c;
}

bool is_ranked(const ArmResult& arm) { return arm.role == ArmRole::judged || arm.role == ArmRole::graded; }

std::vector<std::size_t> ranking(const ParityComparison& c) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < c.arms.size(); ++i) {
    if (is_ranked(c.arms[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const double mean = c.arms[i].evidence.interval.mean;
    return std::pair(c.arms[i].branch_step, std::isnan(mean) ? std::numeric_limits<double>::infinity() : mean);
  });
  return order;
}

double share_of_training(const ParityComparison& c, const ArmResult& arm) {
  return 1 - static_cast<double>(arm.branch_step) / static_cast<double>(c.config.steps);
}

std::vector<RecipeByBranchPoint> by_branch_point(const ParityComparison& c) {
  std::map<std::string, std::vector<std::size_t>> arms;
  for (const std::size_t i : ranking(c)) arms[c.arms[i].recipe].push_back(i);
  std::vector<RecipeByBranchPoint> all;
  for (auto& [recipe, of_recipe] : arms) {
    if (of_recipe.size() > 1) all.push_back({recipe, std::move(of_recipe)});
  }
  return all;
}

PairedInterval gap_between(const ArmResult& a, const ArmResult& b, double alpha) {
  std::map<std::uint64_t, double> other;
  for (const SeedPair& p : b.pairs) other[p.seed] = p.difference;
  std::vector<double> differences;
  for (const SeedPair& p : a.pairs) {
    const auto found = other.find(p.seed);
    if (found == other.end()) continue;
    const double difference = p.difference - found->second;
    if (std::isfinite(difference)) differences.push_back(difference);
  }
  return paired_interval(differences, alpha);
}

namespace {

// Both results must be of one recipe, and of other runs: means of the same runs are not independent.
void require_other_runs(const ArmResult& here, const ArmResult& there, const std::string& name) {
  if (!(here.layers == there.layers))
    throw Error(ErrorKind::input,
                fmt::format("{}: its recipe {} is another one than the recipe of that name beside which it is to stand",
                            name, there.recipe));
  for (const SeedPair& a : here.pairs) {
    for (const SeedPair& b : there.pairs) {
      if (a.seed == b.seed && a.baseline == b.baseline && a.arm == b.arm)
        throw Error(ErrorKind::input, fmt::format("{}: {} of seed {} is a run of both experiments; means of the same "
                                                  "runs are not independent",
                                                  name, there.name, a.seed));
    }
  }
}

}  // namespace

ExperimentBeside beside(const ParityComparison& c, const ParityComparison& other, const std::string& name) {
  ExperimentBeside out{name, other.corpus, other.parameters, other.tokens, {}};
  for (const std::size_t i : ranking(other)) {
    const ArmResult& there = other.arms[i];
    const double share = share_of_training(other, there);
    for (const ArmResult& here : c.arms) {
      if (!is_ranked(here) || here.recipe != there.recipe || share_of_training(c, here) != share) continue;
      require_other_runs(here, there, name);
      const PairedInterval& gap = there.evidence.interval;
      out.gaps.push_back({there.recipe, share, gap, there.judgement.verdict,
                          unpaired_interval(gap, here.evidence.interval, c.options.alpha)});
    }
  }
  return out;
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

namespace {

double bits_of(const OperandRule& rule) {
  const double code = spec(rule.format).bits;
  const std::int64_t block = rule.block.rows * rule.block.cols;
  if (!rule.quantized() || block == 0) return code;  // 0: a scale for whole columns, rows or all
  const Format scale = scale_format_of(rule);
  return code + static_cast<double>(spec(scale).bits) / static_cast<double>(block);
}

}  // namespace

RecipeCost cost_of(const Arm& arm) {
  RecipeCost cost;
  double sum = 0;
  std::int64_t count = 0;
  for (const NamedRun* run : arm.runs) {
    const RunRecord& r = run->record;
    const bool has_time = std::isfinite(r.seconds) && r.seconds > 0;
    if (!has_time) continue;
    sum += static_cast<double>(r.config.tokens()) * static_cast<double>(r.steps.size()) / r.seconds;
    ++count;
  }
  if (count > 0) cost.tokens_a_second = sum / static_cast<double>(count);
  const TrainingConfig& config = arm.runs.front()->record.config;
  const GemmRule& up = config.recipe.gemm(LayerGemm::up);
  cost.x_bits = bits_of(up.a);
  cost.w1_bits = bits_of(up.b);
  const GemmRule& d_down = config.recipe.gemm(LayerGemm::d_down);
  cost.dy_bits = bits_of(d_down.a);
  cost.w2_bits = bits_of(d_down.b);
  if (config.recipe.keeps_quantized_x) cost.kept_x_bits = cost.x_bits;
  cost.kept_h_bits = bits_of(config.recipe.kept_h);
  cost.optimizer_bytes = (spec(Format::fp32).bits + 2 * spec(config.optimizer.moments).bits) / 8;
  return cost;
}

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void check_probability(double p) {
  const bool inside = p > 0 && p < 1;
  if (!inside) throw Error(ErrorKind::usage, "a probability of " + std::to_string(p) + "; between 0 and 1 is right");
}

double mean_of(std::span<const double> x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

}  // namespace

double student_t_quantile(double p, double freedom) {
  check_probability(p);
  const bool has_freedom = freedom >= 1;
  if (!has_freedom) throw Error(ErrorKind::usage, "Student's t needs a degree of freedom: two pairs or more");
  return boost::math::quantile(boost::math::students_t(freedom), p);
}

PairedInterval paired_interval(std::span<const double> differences, double alpha) {
  PairedInterval i;
  i.pairs = static_cast<std::int64_t>(differences.size());
  if (i.pairs == 0) return i;
  i.mean = mean_of(differences);
  if (i.pairs < 2) return i;
  const auto n = static_cast<double>(i.pairs);
  double squares = 0;
  for (const double d : differences) squares += (d - i.mean) * (d - i.mean);
  i.deviation = std::sqrt(squares / (n - 1));
  const double half = student_t_quantile(1 - alpha, n - 1) * i.deviation / std::sqrt(n);
  i.lower = i.mean - half;
  i.upper = i.mean + half;
  return i;
}

UnpairedInterval unpaired_interval(const PairedInterval& a, const PairedInterval& b, double alpha) {
  UnpairedInterval i;
  i.mean = a.mean - b.mean;
  if (a.pairs < 2 || b.pairs < 2) return i;
  const auto square_error = [](const PairedInterval& of) {
    return of.deviation * of.deviation / static_cast<double>(of.pairs);
  };
  const double of_a = square_error(a);
  const double of_b = square_error(b);
  const double both = of_a + of_b;
  const auto share = [&](double of, std::int64_t pairs) { return of * of / static_cast<double>(pairs - 1); };
  i.freedom = both == 0 ? static_cast<double>(a.pairs + b.pairs - 2)
                        : both * both / (share(of_a, a.pairs) + share(of_b, b.pairs));
  const double half = std::isnan(i.freedom) ? kNone : student_t_quantile(1 - alpha, i.freedom) * std::sqrt(both);
  i.lower = i.mean - half;
  i.upper = i.mean + half;
  return i;
}

double power_of(std::int64_t pairs, double gap, double deviation, double alpha) {
  if (pairs < 2 || std::isnan(gap) || std::isnan(deviation)) return kNone;
  if (deviation == 0) return gap > 0 ? 1 : 0;
  const double shift = gap / deviation * std::sqrt(static_cast<double>(pairs));
  // P(T' <= quantile) is below 1e-12 long before: Boost's series for large shifts takes ever longer.
  constexpr double kCertain = 200;
  const double quantile = student_t_quantile(1 - alpha, static_cast<double>(pairs - 1));
  if (shift > kCertain + 10 * quantile) return 1;
  const boost::math::non_central_t distribution(static_cast<double>(pairs - 1), shift);
  return boost::math::cdf(boost::math::complement(distribution, quantile));
}

std::optional<std::int64_t> pairs_needed(double margin, double deviation, double alpha, double power) {
  check_probability(power);
  constexpr std::int64_t kMost = 1'000'000;
  const auto enough = [&](std::int64_t pairs) { return power_of(pairs, margin, deviation, alpha) >= power; };
  std::int64_t high = 2;
  while (high < kMost && !enough(high)) high *= 2;
  if (!enough(high)) return std::nullopt;
  std::int64_t low = high / 2;  // not enough, or 1
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

double visible_gap(std::int64_t pairs, double deviation, double alpha, double power) {
  check_probability(power);
  if (pairs < 2 || !std::isfinite(deviation)) return kNone;
  if (deviation == 0) return 0;
  double low = 0;
  double high = deviation;
  while (power_of(pairs, high, deviation, alpha) < power) high *= 2;
  for (int i = 0; i < 50; ++i) {  // to 2^-50 of the first bracket
    const double middle = (low + high) / 2;
    (power_of(pairs, middle, deviation, alpha) < power ? low : high) = middle;
  }
  return high;
}

double correlation_of(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size() || x.size() < 3) return kNone;
  const double mx = mean_of(x);
  const double my = mean_of(y);
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);  // 0 / 0 is NaN
}

namespace {

std::string percent(double share) { return fmt::format("{:+.4f} %", 100 * share); }

std::string too_few(std::int64_t pairs) {
  return fmt::format("{} pair{} of at least {}", pairs, pairs == 1 ? "" : "s", kLeastPairs);
}

// The unmet conditions that stand between an interval below the margin and the word non-inferior.
std::vector<std::string> unmet(const ArmEvidence& arm, const Sensitivity& sensitivity) {
  std::vector<std::string> all;
  if (arm.interval.pairs < kLeastPairs) all.push_back(too_few(arm.interval.pairs));
  if (arm.missing > 0)
    all.push_back(fmt::format("{} seed{} of the experiment not run", arm.missing, arm.missing == 1 ? "" : "s"));
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
