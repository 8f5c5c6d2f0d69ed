#include "trainer/compare/arm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "numerics/error.h"
#include "trainer/compare/trajectory.h"
#include "trainer/record/run_file.h"
#include "trainer/run/branch.h"

namespace mxcheck {
namespace {

bool is_plain(const TrainingConfig& c) {
  return c.rounding == TokenRoundingRule::none && c.optimizer.moments == Format::fp32;
}

// A branch in which nothing is otherwise is its trunk again: an A/A run that shows no noise.
ArmRole role_of(const RunRecord& run) {
  const TrainingConfig& c = run.config;
  if (c.recipe.name == "broken") return ArmRole::control;
  if (c.recipe.name != "bf16" || !is_plain(c)) return ArmRole::judged;
  return c.perturb == 0 && !run.branch ? ArmRole::baseline : ArmRole::repeat;
}

double mean_of_last(const RunRecord& run, std::uint32_t RecordedEvaluation::*loss) {
  if (has_diverged(run)) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (std::size_t i = run.evaluations.size() - kEndpointEvaluations; i < run.evaluations.size(); ++i)
    sum += value_of(run.evaluations[i].*loss);
  return sum / static_cast<double>(kEndpointEvaluations);
}

const NamedRun* run_of_seed(const Arm& arm, std::uint64_t seed) {
  const auto found = std::ranges::find_if(arm.runs, [&](const NamedRun* r) { return r->record.config.seed == seed; });
  return found == arm.runs.end() ? nullptr : *found;
}

// The trunk of a branch is the baseline's run of its seed.
void check_trunk(const NamedRun& branch, const NamedRun& baseline, std::map<std::uint64_t, Trunk>& trunks) {
  auto [at, is_new] = trunks.try_emplace(baseline.record.config.seed);
  if (is_new) at->second = {baseline.file, baseline.record, sha256_of(baseline.record)};
  check_branch(branch.record, branch.file, at->second);
}

void check_pairs(const std::vector<Arm>& arms) {
  if (arms.empty() || arms.front().role != ArmRole::baseline)
    refuse_input("no run of the baseline: recipe bf16, token choice, FP32 moments, no weight that starts one ulp up");
  std::map<std::uint64_t, Trunk> trunks;
  for (const Arm& arm : arms) {
    for (const NamedRun* run : arm.runs) {
      const std::uint64_t seed = run->record.config.seed;
      const NamedRun* const baseline = run_of_seed(arms.front(), seed);
      if (baseline != nullptr && run->record.branch) check_trunk(*run, *baseline, trunks);
      if (baseline == nullptr)
        refuse_input(run->file + ": no run of BF16 has its seed, " + std::to_string(seed) + ": a pair shares a seed (" +
                     arms.front().runs.front()->file + " has " +
                     std::to_string(arms.front().runs.front()->record.config.seed) + ")");
    }
  }
}

}  // namespace

double value_of(std::uint32_t fp32_bits) { return static_cast<double>(std::bit_cast<float>(fp32_bits)); }

std::string branch_point(std::int64_t step, std::int64_t steps) {
  return step == 0 ? "scratch" : fmt::format("{:.4g} %", 100 * static_cast<double>(step) / static_cast<double>(steps));
}

std::string arm_recipe(const TrainingConfig& c) {
  std::string name = c.recipe.name;
  if (c.bf16_last != 0) name += "+bf16_last" + std::to_string(c.bf16_last);
  if (c.rounding != TokenRoundingRule::none) {
    name += " + " + std::string(to_text(c.rounding));
    if (c.tile != TrainingConfig().tile) name += " to " + std::to_string(c.tile);
  }
  if (c.optimizer.moments != Format::fp32) name += " + moments " + std::string(spec(c.optimizer.moments).name);
  if (c.perturb != 0)
    name += c.perturb == kPerturbAll     ? " + all weights moved"
            : c.perturb == kPerturbOrder ? " + columns reordered"
                                         : " + one ulp";
  return name;
}

std::string arm_name(const RunRecord& run) {
  const std::string recipe = arm_recipe(run.config);
  return run.branch ? recipe + " from " + branch_point(run.branch->step, run.config.steps) : recipe;
}

bool has_diverged(const RunRecord& run) {
  if (run.end == RunEnd::diverged || run.evaluations.size() < kEndpointEvaluations) return true;
  for (std::size_t i = run.evaluations.size() - kEndpointEvaluations; i < run.evaluations.size(); ++i) {
    const RecordedEvaluation& e = run.evaluations[i];
    if (!std::isfinite(value_of(e.loss_bf16)) || !std::isfinite(value_of(e.loss_own))) return true;
  }
  return false;
}

double endpoint_of(const RunRecord& run) { return mean_of_last(run, &RecordedEvaluation::loss_bf16); }
double own_endpoint_of(const RunRecord& run) { return mean_of_last(run, &RecordedEvaluation::loss_own); }

double training_endpoint_of(const RunRecord& run, std::size_t most) {
  const auto tenth = static_cast<std::size_t>((run.steps_done() + 9) / 10);
  const std::size_t count = std::min({tenth, run.steps.size(), most});
  double sum = 0;
  for (std::size_t i = run.steps.size() - count; i < run.steps.size(); ++i) sum += value_of(run.steps[i].loss);
  return sum / static_cast<double>(count);
}

std::vector<Arm> arms_of(std::span<const NamedRun> runs) {
  for (const NamedRun& run : runs) check_whole(run);
  check_same_experiment(runs);
  std::map<std::tuple<std::int64_t, ArmRole, std::string>, Arm> arms;  // the order is that of the result
  for (const NamedRun& run : runs) {
    const TrainingConfig& c = run.record.config;
    const ArmRole role = role_of(run.record);
    Arm& arm = arms[{run.record.first_step(), role, arm_name(run.record)}];
    arm.name = arm_name(run.record);
    arm.recipe = arm_recipe(c);
    arm.role = role;
    arm.branch_step = run.record.first_step();
    if (const NamedRun* other = run_of_seed(arm, c.seed))
      refuse_input(other->file + " and " + run.file + ": both are seed " + std::to_string(c.seed) + " of " + arm.name +
                   "; a seed counts once");
    arm.runs.push_back(&run);
  }
  std::vector<Arm> all;
  for (auto& [key, arm] : arms) {
    std::ranges::sort(arm.runs, {}, [](const NamedRun* r) { return r->record.config.seed; });
    all.push_back(std::move(arm));
  }
  check_pairs(all);
  return all;
}

namespace {

struct Field {
  std::string name;
  std::string value;
};

std::vector<Field> shared_fields(const RunRecord& r) {
  const TrainingConfig& c = r.config;
  const OptimizerConfig& o = c.optimizer;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {
      {"model.layers", text(c.model.layers)},
      {"model.width", text(c.model.width)},
      {"model.heads", text(c.model.heads)},
      {"model.experts", text(c.model.experts)},
      {"model.inner", text(c.model.inner)},
      {"model.top_k", text(c.model.top_k)},
      {"model.length", text(c.model.length)},
      {"batch", text(c.batch)},
      {"microbatches", text(c.microbatches)},
      {"steps", text(c.steps)},
      {"balance", text(c.balance)},
      {"optimizer.peak_rate", text(o.peak_rate)},
      {"optimizer.last_rate", text(o.last_rate)},
      {"optimizer.warm_up", text(o.warm_up)},
      {"optimizer.beta1", text(o.beta1)},
      {"optimizer.beta2", text(o.beta2)},
      {"optimizer.epsilon", text(o.epsilon)},
      {"optimizer.decay", text(o.decay)},
      {"optimizer.clip", text(o.clip)},
      {"optimizer.skips_non_finite", text(o.skips_non_finite)},
      {"training_sha256", r.training_sha256},
      {"validation_sha256", r.validation_sha256},
      {"validation_sequences", text(r.plan.validation_sequences)},
  };
}

void check_fields(const NamedRun& first, const NamedRun& run) {
  const std::vector<Field> expected = shared_fields(first.record);
  const std::vector<Field> found = shared_fields(run.record);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].value == expected[i].value) continue;
    throw Error(ErrorKind::input, fmt::format("{} and {}: {} differs, {} and {}; runs of one experiment share it",
                                              first.file, run.file, found[i].name, expected[i].value, found[i].value));
  }
}

// The steps of `run` are those of `longest`, or their beginning where the run diverged.
void check_evaluations(const NamedRun& longest, const NamedRun& run) {
  const auto& expected = longest.record.evaluations;
  const auto& found = run.record.evaluations;
  const auto step = &RecordedEvaluation::step;
  const auto first = std::ranges::lower_bound(expected, run.record.first_step(), {}, step);
  const auto left = static_cast<std::size_t>(expected.end() - first);
  const bool begins =
      found.size() <= left && std::ranges::equal(found.begin(), found.end(), first,
                                                 first + static_cast<std::ptrdiff_t>(found.size()), {}, step, step);
  const bool whole = found.size() == left || run.record.end == RunEnd::diverged;
  if (begins && whole) return;
  throw Error(ErrorKind::input,
              fmt::format("{} and {}: evaluations are after other steps ({} and {} of them); runs of one experiment "
                          "are evaluated after the same",
                          longest.file, run.file, expected.size(), found.size()));
}

// A name stands for one recipe, and bf16 for none.
void check_recipes(std::span<const NamedRun> runs) {
  std::map<std::string, const NamedRun*> seen;
  for (const NamedRun& run : runs) {
    const LayerRecipe& recipe = run.record.config.recipe;
    const auto [at, is_new] = seen.try_emplace(recipe.name, &run);
    if (at->second->record.config.recipe != recipe)
      throw Error(ErrorKind::input, at->second->file + " and " + run.file + ": recipe differs, though both call it '" +
                                        recipe.name + "'; a name stands for one recipe");
    const bool quantizes =
        std::ranges::any_of(recipe.gemms, [](const GemmRule& g) { return g.a.quantized() || g.b.quantized(); });
    if (is_new && recipe.name == "bf16" && quantizes)
      throw Error(ErrorKind::input, run.file + ": recipe 'bf16' quantizes; the baseline's does not");
  }
}

}  // namespace

void check_whole(const NamedRun& run) {
  const RunRecord& r = run.record;
  if (r.end == RunEnd::unfinished)
    throw Error(ErrorKind::input, fmt::format("{}: unfinished, {} of {} steps; finish it first", run.file,
                                              r.steps_done(), r.config.steps));
  if (r.end == RunEnd::diverged) return;
  if (r.steps_done() != r.config.steps)
    throw Error(ErrorKind::input, fmt::format("{}: finished with {} steps, its configuration has {}", run.file,
                                              r.steps_done(), r.config.steps));
  if (r.evaluations.size() < kEndpointEvaluations)
    throw Error(ErrorKind::input, fmt::format("{}: {} evaluations; the endpoint is the mean of the last {}", run.file,
                                              r.evaluations.size(), kEndpointEvaluations));
}

void check_same_experiment(std::span<const NamedRun> runs) {
  if (runs.empty()) return;
  for (const NamedRun& run : runs) check_fields(runs.front(), run);
  const NamedRun& longest =
      *std::ranges::max_element(runs, {}, [](const NamedRun& r) { return r.record.evaluations.size(); });
  for (const NamedRun& run : runs) check_evaluations(longest, run);
  check_recipes(runs);
}

namespace {

struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  [[nodiscard]] double value() const { return sum / static_cast<double>(count); }
};
using Means = std::map<std::int64_t, Mean>;  // by step

StepCurve curve_from(const Means& means) {
  StepCurve curve;
  for (const auto& [step, mean] : means) curve.push_back({step, mean.value()});
  return curve;
}

double share(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

std::vector<double> shares_of_rows(const LayerObservation& layer) {
  std::int64_t rows = 0;
  for (const std::int64_t load : layer.expert_loads) rows += load;
  std::vector<double> shares;
  if (rows == 0) return shares;
  for (const std::int64_t load : layer.expert_loads) shares.push_back(share(load, rows));
  std::ranges::sort(shares, std::greater<>());
  return shares;
}

double entropy(const std::vector<double>& shares) {
  double sum = 0;
  for (const double p : shares) {
    if (p > 0) sum -= p * std::log(p);
  }
  return shares.size() > 1 ? sum / std::log(static_cast<double>(shares.size())) : 1;
}

void add_routes(const Arm& arm, ObservedArm& out) {
  Means by_step;
  std::map<std::size_t, Mean> by_layer;
  for (const NamedRun* run : arm.runs) {
    for (const RecordedEvaluation& e : run->record.evaluations) {
      if (e.routes <= 0) continue;
      for (std::size_t l = 0; l < e.equal_routes.size(); ++l) {
        by_step[e.step].add(share(e.equal_routes[l], e.routes));
        if (&e == &run->record.evaluations.back()) by_layer[l].add(share(e.equal_routes[l], e.routes));
      }
    }
  }
  out.equal_routes = curve_from(by_step);
  for (const auto& [layer, mean] : by_layer) out.equal_routes_by_layer.push_back(mean.value());
}

void add_loads(const Arm& arm, ObservedArm& out) {
  Means by_step;
  std::vector<std::vector<Mean>> last;  // by layer and rank
  for (const NamedRun* run : arm.runs) {
    for (const RecordedObservation& o : run->record.observations) {
      for (std::size_t l = 0; l < o.layers.size(); ++l) {
        const std::vector<double> shares = shares_of_rows(o.layers[l]);
        if (shares.empty()) continue;
        by_step[o.step].add(entropy(shares));
        if (&o != &run->record.observations.back()) continue;
        if (last.size() <= l) last.resize(l + 1);
        if (last[l].size() < shares.size()) last[l].resize(shares.size());
        for (std::size_t i = 0; i < shares.size(); ++i) last[l][i].add(shares[i]);
      }
    }
  }
  out.load_entropy = curve_from(by_step);
  for (const std::vector<Mean>& layer : last) {
    std::vector<double>& shares = out.loads.emplace_back();
    for (const Mean& mean : layer) shares.push_back(mean.value());
  }
}

void add_operands(const Arm& arm, ObservedArm& out) {
  std::map<std::string, std::pair<Means, Means>> by_name;
  for (const NamedRun* run : arm.runs) {
    for (const RecordedObservation& o : run->record.observations) {
      std::map<std::string, OperandFacts> sums;  // over the layers
      for (const LayerObservation& layer : o.layers) {
        for (const OperandFacts& facts : layer.operands) {
          OperandFacts& sum = sums[facts.name];
          sum.elements += facts.elements;
          sum.saturated += facts.saturated;
          sum.flushed += facts.flushed;
        }
      }
      for (const auto& [name, sum] : sums) {
        if (sum.elements <= 0) continue;
        by_name[name].first[o.step].add(share(sum.saturated, sum.elements));
        by_name[name].second[o.step].add(share(sum.flushed, sum.elements));
      }
    }
  }
  for (const auto& [name, means] : by_name)
    out.operands.push_back({name, curve_from(means.first), curve_from(means.second)});
}

}  // namespace

ObservedArm observed_of(const Arm& arm) {
  ObservedArm out;
  add_routes(arm, out);
  add_loads(arm, out);
  add_operands(arm, out);
  return out;
}

}  // namespace mxcheck
