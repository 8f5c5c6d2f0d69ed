#include "trainer/run/branch.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "trainer/config/config.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/run_file.h"
#include "trainer/run/run.h"

namespace mxcheck {
namespace {

// The trunk's configuration with all that a branch may have otherwise.
TrainingConfig as_in_branch(TrainingConfig trunk, const TrainingConfig& branch) {
  trunk.recipe = branch.recipe, trunk.bf16_last = branch.bf16_last, trunk.rounding = branch.rounding,
  trunk.tile = branch.tile;
  trunk.perturb = branch.perturb, trunk.optimizer.moments = branch.optimizer.moments;
  return trunk;
}

std::string config_objection(const TrainingConfig& trunk, const TrainingConfig& branch) {
  if (trunk.optimizer.moments != Format::fp32) return "the trunk's moments are not kept in FP32";
  const std::string difference = first_difference(as_in_branch(trunk, branch), branch);
  return difference.empty() ? ""
                            : difference +
                                  " in the branch: it shares with its trunk all but recipe, bf16_last, rounding, tile, "
                                  "perturb and the type of the moments";
}

// The kept checkpoint nearest before `step` steps that lies beside the trunk.
std::optional<Checkpoint> nearest_checkpoint(const Trunk& trunk, std::int64_t step) {
  std::string nearest;
  for (const std::int64_t kept : trunk.run.plan.kept) {
    const std::string path = kept_checkpoint_of(trunk.file, kept);
    if (kept <= step && path_exists(path)) nearest = path;
  }
  if (nearest.empty()) return std::nullopt;
  Checkpoint checkpoint = read_checkpoint(nearest);
  check_belongs(checkpoint, trunk.run, nearest);
  return checkpoint;
}

}  // namespace

Trunk read_trunk(const std::string& file) {
  Trunk trunk{file, read_run(file), ""};
  if (trunk.run.branch) throw Error(ErrorKind::input, file + ": is a branch itself; a trunk begins with its own state");
  trunk.sha256 = sha256_of(trunk.run);
  return trunk;
}

Trunk trunk_beside(const RunRecord& branch, const std::string& branch_file, const std::string& trunk_file) {
  const RunBranch& b = branch.branch.value();
  const std::string path =
      trunk_file.empty() ? (std::filesystem::path(branch_file).parent_path() / b.file).string() : trunk_file;
  if (!path_exists(path)) {
    throw Error(ErrorKind::input, fmt::format("{}: is a branch of {} (SHA-256 {}), which is not at {}", branch_file,
                                              b.file, b.trunk, path));
  }
  Trunk trunk = read_trunk(path);
  check_branch(branch, branch_file, trunk);
  return trunk;
}

RunBranch branch_of(const Trunk& trunk, const TrainingConfig& config, std::int64_t step) {
  if (const std::string wrong = config_objection(trunk.run.config, config); !wrong.empty())
    throw Error(ErrorKind::usage, trunk.file + ": " + wrong);
  if (step < 1 || step >= config.steps) {
    throw Error(ErrorKind::usage, fmt::format("a branch after step {} of {}; it begins after 1 to {} steps", step,
                                              config.steps, config.steps - 1));
  }
  if (step > trunk.run.steps_done()) {
    throw Error(ErrorKind::input, fmt::format("{}: has {} steps; there is no state after {} to branch off from",
                                              trunk.file, trunk.run.steps_done(), step));
  }
  return {trunk.sha256, std::filesystem::path(trunk.file).filename().string(), step, trunk.run.step(step - 1).weights};
}

RunBranch branch_under_way(const std::string& trunk_file, const TrainingConfig& trunk, const TrainingConfig& config,
                           const TrainingState& state) {
  if (const std::string wrong = config_objection(trunk, config); !wrong.empty())
    throw Error(ErrorKind::usage, trunk_file + ": " + wrong);
  return {std::string(kTrunkUnderWay), std::filesystem::path(trunk_file).filename().string(), state.step,
          weights_digest(state)};
}

void check_data(const Trunk& trunk, const Corpus& corpus) {
  const RunRecord& run = trunk.run;
  if (run.training_sha256 == corpus.training_sha256 && run.validation_sha256 == corpus.validation_sha256) return;
  throw Error(ErrorKind::input,
              fmt::format("{}: was trained on other data: its training part has SHA-256 {} ({}), {} has {}", trunk.file,
                          run.training_sha256, run.corpus, corpus.name, corpus.training_sha256));
}

void check_branch(const RunRecord& branch, const std::string& branch_file, const Trunk& trunk) {
  const auto refuse = [&](const std::string& what) { throw Error(ErrorKind::input, branch_file + ": " + what); };
  const RunBranch& b = branch.branch.value();
  if (b.trunk != trunk.sha256)
    refuse(fmt::format("branches off from a run with SHA-256 {}; {} has {}", b.trunk, trunk.file, trunk.sha256));
  if (const std::string wrong = config_objection(trunk.run.config, branch.config); !wrong.empty())
    refuse("cannot be a branch of " + trunk.file + ": " + wrong);
  if (branch.training_sha256 != trunk.run.training_sha256 || branch.validation_sha256 != trunk.run.validation_sha256)
    refuse("was trained on other data than its trunk " + trunk.file);
  if (b.step > trunk.run.steps_done() || trunk.run.step(b.step - 1).weights != b.weights) {
    refuse(fmt::format(
        "says that its trunk's weights after {} steps have the digest {:016x}; {} recorded {}", b.step, b.weights,
        trunk.file,
        b.step > trunk.run.steps_done() ? "no such step" : fmt::format("{:016x}", trunk.run.step(b.step - 1).weights)));
  }
}

std::shared_ptr<const TrainingState> state_of(const Trunk& trunk, std::int64_t step, const Corpus& corpus,
                                              const EngineMaker& engine,
                                              const std::function<void(std::int64_t)>& watch) {
  check_data(trunk, corpus);
  std::optional<Checkpoint> checkpoint = nearest_checkpoint(trunk, step);
  if (checkpoint && checkpoint->state.step == step)
    return std::make_shared<const TrainingState>(std::move(checkpoint->state));
  const std::unique_ptr<TrainingEngine> computes = engine(trunk.run.config);
  computes->load(checkpoint ? std::move(checkpoint->state) : initial_state(trunk.run.config));
  for (std::int64_t at = computes->steps_done(); at < step; ++at) {
    if (watch) watch(at);
    const StepOutcome outcome = computes->step(training_batch(corpus, trunk.run.config, at), false);
    if (recorded(outcome) == trunk.run.step(at)) continue;
    throw Error(ErrorKind::internal,
                fmt::format("{}: step {}, computed again, has other bits than were recorded: the machine or the "
                            "program is not the one it was (mxcheck parity audit says what differs)",
                            trunk.file, at));
  }
  return std::make_shared<const TrainingState>(computes->state());
}

void check_trunk_state(const TrainingState& state, const RunBranch& branch) {
  if (state.step == branch.step && weights_digest(state) == branch.weights) return;
  throw Error(ErrorKind::internal,
              fmt::format("the state to branch off from is of step {} with weights {:016x}; step {} with {:016x} is "
                          "needed",
                          state.step, weights_digest(state), branch.step, branch.weights));
}

}  // namespace mxcheck
