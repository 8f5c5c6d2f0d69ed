// When a run does what: the intervals that are taken where none are given, and those that cannot be.

#include <algorithm>
#include <string>

#include "numerics/error.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

void check_interval(std::int64_t every, const char* what) {
  if (every >= 1) return;
  throw Error(ErrorKind::usage,
              std::string("a run with ") + what + " every " + std::to_string(every) + " steps; 1 or more is needed");
}

}  // namespace

RunPlan plan_of(const TrainingConfig& config) {
  const auto part = [&](std::int64_t parts) { return std::max<std::int64_t>(1, config.steps / parts); };
  RunPlan plan;
  plan.evaluate_every = part(100), plan.observe_every = part(100), plan.checkpoint_every = part(20);
  plan.validation_sequences = 64;
  for (const std::int64_t step : {std::int64_t{100}, config.steps / 2, config.steps - 1}) {
    if (step > 0 && step < config.steps) plan.kept.push_back(step);
  }
  std::sort(plan.kept.begin(), plan.kept.end());
  plan.kept.erase(std::unique(plan.kept.begin(), plan.kept.end()), plan.kept.end());
  return plan;
}

void check(const RunPlan& plan, const TrainingConfig& config) {
  check_interval(plan.evaluate_every, "an evaluation");
  check_interval(plan.observe_every, "an observation");
  check_interval(plan.checkpoint_every, "a checkpoint");
  if (plan.validation_sequences < 1 || plan.validation_sequences > 1 << 20) {
    throw Error(ErrorKind::usage,
                "evaluations of " + std::to_string(plan.validation_sequences) + " sequences; 1 to 2^20 are needed");
  }
  std::int64_t before = -1;
  for (const std::int64_t step : plan.kept) {
    if (step <= before || step >= config.steps) {
      throw Error(ErrorKind::usage, "a checkpoint to keep before step " + std::to_string(step) +
                                        "; steps of the run, 0 to " + std::to_string(config.steps - 1) +
                                        ", each once and ascending, are needed");
    }
    before = step;
  }
}

}  // namespace mxcheck
