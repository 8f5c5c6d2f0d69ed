#include "trainer/compare/arm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "trainer/compare/same_experiment.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::input, text); }

bool is_plain(const TrainingConfig& c) {
  return c.rounding == TokenRoundingRule::none && c.optimizer.moments == Format::fp32;
}

ArmRole role_of(const TrainingConfig& c) {
  if (c.recipe.name == "broken") return ArmRole::control;
  if (c.recipe.name != "bf16" || !is_plain(c)) return ArmRole::judged;
  return c.perturb == 0 ? ArmRole::baseline : ArmRole::repeat;
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

void check_pairs(const std::vector<Arm>& arms) {
  if (arms.empty() || arms.front().role != ArmRole::baseline)
    refuse("no run of the baseline: recipe bf16, token choice, FP32 moments, no weight that starts one ulp up");
  for (const Arm& arm : arms) {
    for (const NamedRun* run : arm.runs) {
      const std::uint64_t seed = run->record.config.seed;
      if (run_of_seed(arms.front(), seed) == nullptr)
        refuse(run->file + ": no run of BF16 has its seed, " + std::to_string(seed) + ": a pair shares a seed (" +
               arms.front().runs.front()->file + " has " +
               std::to_string(arms.front().runs.front()->record.config.seed) + ")");
    }
  }
}

}  // namespace

double value_of(std::uint32_t fp32_bits) { return static_cast<double>(std::bit_cast<float>(fp32_bits)); }

std::string arm_name(const TrainingConfig& c) {
  std::string name = c.recipe.name;
  if (c.rounding != TokenRoundingRule::none) {
    name += " + " + std::string(to_text(c.rounding));
    if (c.tile != TrainingConfig().tile) name += " to " + std::to_string(c.tile);
  }
  if (c.optimizer.moments != Format::fp32) name += " + moments " + std::string(spec(c.optimizer.moments).name);
  if (c.perturb != 0) name += c.perturb == kPerturbAll ? " + all weights moved" : " + one ulp";
  return name;
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

double training_endpoint_of(const RunRecord& run) {
  const std::size_t count = (run.steps.size() + 9) / 10;
  double sum = 0;
  for (std::size_t i = run.steps.size() - count; i < run.steps.size(); ++i) sum += value_of(run.steps[i].loss);
  return sum / static_cast<double>(count);
}

std::vector<Arm> arms_of(std::span<const NamedRun> runs) {
  for (const NamedRun& run : runs) check_whole(run);
  check_same_experiment(runs);
  std::map<std::pair<ArmRole, std::string>, Arm> arms;  // the order of roles is that of the result
  for (const NamedRun& run : runs) {
    const TrainingConfig& c = run.record.config;
    Arm& arm = arms[{role_of(c), arm_name(c)}];
    arm.name = arm_name(c);
    arm.role = role_of(c);
    if (const NamedRun* other = run_of_seed(arm, c.seed))
      refuse(other->file + " and " + run.file + ": both are seed " + std::to_string(c.seed) + " of " + arm.name +
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

}  // namespace mxcheck
