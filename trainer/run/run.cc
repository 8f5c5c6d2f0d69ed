#include "trainer/run/run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "trainer/record/checkpoint.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"
#include "trainer/run/branch.h"
#include "trainer/run/engine.h"
#include "trainer/run/ranks.h"

namespace mxcheck {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

std::string now_utc() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

template <class List>
bool has_step(const List& list, std::int64_t step) {
  return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.step == step; });
}

RunRecord about(const RunRequest& r, const TrainingEngine& engine) {
  RunRecord run;
  run.config = r.config;
  run.plan = r.plan;
  run.branch = r.branch;
  run.corpus = r.corpus->name;
  run.training_sha256 = r.corpus->training_sha256;
  run.training_bytes = std::ssize(r.corpus->training);
  run.validation_sha256 = r.corpus->validation_sha256;
  run.validation_bytes = std::ssize(r.corpus->validation);
  run.mxcheck = r.mxcheck;
  run.engine = engine.name();
  run.device = engine.device();
  run.started = now_utc();
  return run;
}

// True if the journal is of the run that is asked for.
void check_same(const RunRequest& r, const RunRecord& run) {
  const std::string journal = journal_of(r.out);
  const auto refuse = [&](const std::string& what) { throw Error(ErrorKind::input, journal + ": is of " + what); };
  if (!(run.config == r.config)) refuse("a run with another configuration");
  std::optional<RunBranch> branch = run.branch;
  if (branch && r.branch && branch->trunk == kTrunkUnderWay) branch->trunk = r.branch->trunk;
  if (branch != r.branch) refuse("a run that branches off elsewhere");
  if (!(run.plan == r.plan)) refuse("a run with other intervals of evaluations, observations or checkpoints");
  if (run.training_sha256 != r.corpus->training_sha256 || run.validation_sha256 != r.corpus->validation_sha256) {
    refuse("a run on other data: its training part has SHA-256 " + run.training_sha256 + " (" + run.corpus + "), " +
           r.corpus->name + " has " + r.corpus->training_sha256 + "; give the same data (--data)");
  }
}

class TrainingSession {
 public:
  TrainingSession(const RunRequest& r, TrainingEngine& engine, const RunWatch& watch)
      : r_(r),
        engine_(engine),
        watch_(watch),
        validation_(validation_batch(*r.corpus, r.config.model, r.plan.validation_sequences)) {}

  RunRecord run() {
    if (r_.resume) {
      go_on();
    } else {
      begin();
    }
    const bool is_over = record().end != RunEnd::unfinished || steps_or_nothing();
    end_writing();
    if (!is_over) return interrupted();
    journal_->sync();
    RunRecord run = record();
    if (run.branch && !names_trunk(*run.branch)) {
      run.end = RunEnd::unfinished;
      return run;
    }
    write_run(r_.out, run);
    // The journal last: what it waits for is all gone then.
    std::error_code left;
    std::filesystem::remove(checkpoint_of(r_.out), left);
    std::filesystem::remove(journal_of(r_.out), left);
    return run;
  }

 private:
  // The state before the journal: where memory is short no journal is left.
  void begin() {
    check_fresh(r_);
    engine_.load(first_state());
    journal_.emplace(Journal::create(journal_of(r_.out), about(r_, engine_)));
  }

  // Goes on from the state of the checkpoint, with a note of the new sitting.
  void go_on() {
    journal_.emplace(Journal::resume(journal_of(r_.out)));
    check_same(r_, record());
    if (record().end != RunEnd::unfinished) return;
    const std::string checkpoint = checkpoint_of(r_.out);
    if (path_exists(checkpoint)) {
      Checkpoint c = read_checkpoint(checkpoint);
      check_belongs(c, record(), checkpoint);
      engine_.load(std::move(c.state));
    } else {
      engine_.load(first_state());
    }
    journal_->append(JournalSitting{engine_.steps_done(), now_utc()});
  }

  [[nodiscard]] const RunRecord& record() const { return journal_->record(); }

  // True if the branch has its trunk's hash now. A trunk that ended since the journal began is in the request.
  bool names_trunk(RunBranch& branch) const {
    if (branch.trunk != kTrunkUnderWay) return true;
    const std::optional<std::string> trunk = r_.trunk_sha256 ? r_.trunk_sha256() : r_.branch->trunk;
    branch.trunk = trunk.value_or(branch.trunk);
    return trunk.has_value();
  }

  // A run that fails before its first step is done, as where memory is short, leaves nothing that would stand in the
  // way of the next try.
  bool steps_or_nothing() {
    try {
      return steps();
    } catch (...) {
      if (writing_.valid()) writing_.wait();
      if (!r_.resume && record().steps.empty()) remove_begun();
      throw;
    }
  }
  // check_fresh has found nothing under either name.
  void remove_begun() const {
    std::error_code ignored;
    std::filesystem::remove(journal_of(r_.out), ignored);
    const std::int64_t first = record().first_step();
    if (r_.plan.keeps(first)) std::filesystem::remove(kept_checkpoint_of(r_.out, first), ignored);
  }

  [[nodiscard]] TrainingState first_state() const {
    if (!r_.branch) return initial_state(r_.config);
    TrainingState state = *r_.trunk();
    check_trunk_state(state, *r_.branch);
    branch_off(state, r_.config);
    return state;
  }

  // True if the run came to its end, by its last step or by a norm that is not finite.
  bool steps() {
    const Clock::time_point begun = Clock::now();
    std::int64_t done = 0;
    while (engine_.steps_done() < r_.config.steps) {
      const std::int64_t step = engine_.steps_done();
      evaluate_if_due(step);
      keep_if_due(step);
      const StepOutcome outcome = one_step(step);
      if (!outcome.updated && !r_.config.optimizer.skips_non_finite) {
        journal_->append(RunEnd::diverged);
        return true;
      }
      // None after the last step: the run's end would remove it.
      if ((step + 1) % r_.plan.checkpoint_every == 0 && step + 1 < r_.config.steps) save(checkpoint_of(r_.out));
      const RunProgress progress{step + 1,
                                 r_.config.steps,
                                 outcome.loss,
                                 outcome.gradient_norm,
                                 ++done * r_.config.tokens(),
                                 seconds_since(begun)};
      if (watch_ && !watch_(progress) && step + 1 < r_.config.steps) return false;
    }
    evaluate(r_.config.steps);
    journal_->append(RunEnd::finished);
    return true;
  }

  StepOutcome one_step(std::int64_t step) {
    const Clock::time_point begun = Clock::now();
    const bool observes = r_.plan.observes(step);
    const StepOutcome outcome = engine_.step(training_batch(*r_.corpus, r_.config, step), observes);
    journal_->append(JournalStep{step, recorded(outcome), seconds_since(begun)});
    // A step that ended in a layer has no digests of those after it: what was recorded of it are its NaN.
    if (std::ssize(outcome.layers) != r_.config.model.layers) return outcome;
    if (observes && !outcome.layers[0].expert_loads.empty())
      journal_->append(RecordedObservation{step, outcome.layers});
    if (r_.plan.witnesses(step, r_.config.steps)) journal_->append(witness(step, outcome));
    return outcome;
  }

  void evaluate_if_due(std::int64_t step) {
    if (r_.plan.evaluates_before(step)) evaluate(step);
  }
  void evaluate(std::int64_t step) {
    if (has_step(record().evaluations, step)) return;  // an earlier sitting came further
    journal_->append(evaluation_of(engine_, r_.config, validation_));
  }

  void keep_if_due(std::int64_t step) {
    if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) writing_.get();
    if (!r_.plan.keeps(step)) return;
    const std::string path = kept_checkpoint_of(r_.out, step);
    if (path_exists(path)) return;
    end_writing();
    journal_->sync();
    const auto kept =
        std::make_shared<const Checkpoint>(Checkpoint{r_.config, r_.corpus->training_sha256, engine_.state()});
    if (r_.keeps) r_.keeps({kept, &kept->state});
    // A large model's takes as long as many steps; without a thread it is written by end_writing().
    writing_ = std::async([path, kept] { write_checkpoint(path, *kept); });
  }
  // Throws where the checkpoint could not be written.
  void end_writing() {
    if (writing_.valid()) writing_.get();
  }
  // The journal first: a checkpoint is never ahead of it on the disk.
  void save(const std::string& path) {
    journal_->sync();
    write_checkpoint(path, {r_.config, r_.corpus->training_sha256, engine_.state()});
  }

  RunRecord interrupted() {
    save(checkpoint_of(r_.out));
    return record();
  }

  const RunRequest& r_;
  TrainingEngine& engine_;
  const RunWatch& watch_;
  std::vector<std::uint8_t> validation_;  // before a journal is made: a part that is too short is refused
  std::optional<Journal> journal_;
  std::future<void> writing_;  // of a checkpoint that is kept
};

}  // namespace

std::string journal_of(const std::string& out) { return journal_path(out).string(); }
std::string checkpoint_of(const std::string& out) { return out + ".checkpoint"; }
std::string kept_checkpoint_of(const std::string& out, std::int64_t step) {
  std::filesystem::path path(out);
  const std::string extension = path.extension().string();
  path.replace_extension("step" + std::to_string(step) + (extension.empty() ? ".h5" : extension));
  return path.string();
}

// The journal first: a run that ends in between has its file before its journal goes.
void check_fresh(const RunRequest& r) {
  if (path_exists(journal_of(r.out))) {
    throw Error(ErrorKind::usage, journal_of(r.out) + ": a run to " + r.out +
                                      " was begun and has not ended; go on with it (--resume), or remove this file");
  }
  if (path_exists(r.out)) throw Error(ErrorKind::usage, r.out + ": is there already; a run is written to a new file");
  const std::string folder = std::filesystem::path(r.out).parent_path().string();
  if (!folder.empty() && !is_folder(folder)) throw Error(ErrorKind::usage, r.out + ": there is no folder " + folder);
  if (path_exists(checkpoint_of(r.out)))  // also a name that is too long is refused now, not after steps
    throw Error(ErrorKind::usage, checkpoint_of(r.out) +
                                      ": is there already, and the run would write over it; move it, "
                                      "or choose another name for the run");
  for (const std::int64_t step : r.plan.kept) {
    const std::string kept = kept_checkpoint_of(r.out, step);
    if (!path_exists(kept)) continue;
    throw Error(ErrorKind::usage, kept + ": is there already, of another run; audits of " + r.out +
                                      " would begin with it: remove it, or take another name");
  }
}

RecordedStep recorded(const StepOutcome& o) {
  return {std::bit_cast<std::uint32_t>(o.loss),
          std::bit_cast<std::uint32_t>(o.balance_loss),
          std::bit_cast<std::uint32_t>(o.gradient_norm),
          std::bit_cast<std::uint32_t>(o.rate),
          o.weights_digest,
          o.skipped};
}

RecordedWitness witness(std::int64_t step, const StepOutcome& outcome) {
  RecordedWitness w{step, outcome.parameter_digests, {}};
  for (const LayerObservation& layer : outcome.layers) w.layers.push_back(layer.output_digest);
  return w;
}

RunRecord run_training(const RunRequest& request, TrainingEngine& engine, const RunWatch& watch) {
  check(request.config);
  check(request.plan, request.config);
  return TrainingSession(request, engine, watch).run();
}

namespace {

// "model name" of the first processor, as Linux has it.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "a processor without a name";
}

class CpuEngine final : public TrainingEngine {
 public:
  CpuEngine(const TrainingConfig& config, int threads, RankGroup* ranks)
      : config_(config), threads_(threads), ranks_(ranks) {}

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::string device() const override { return processor_name(); }
  void load(TrainingState state) override { state_ = std::move(state); }
  [[nodiscard]] std::int64_t steps_done() const override { return state_.step; }
  [[nodiscard]] const TrainingState& state() override { return state_; }
  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    if (ranks_ != nullptr) return step_of_ranks(config_, state_, tokens, observe, threads_, *ranks_);
    return training_step(config_, state_, tokens, observe, threads_);
  }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    return mxcheck::evaluate(config_, state_, recipe, tokens, threads_);
  }

 private:
  TrainingConfig config_;
  int threads_;
  RankGroup* ranks_;
  TrainingState state_;
};

}  // namespace

std::unique_ptr<TrainingEngine> cpu_engine(const TrainingConfig& config, int threads, RankGroup* ranks) {
  check(config);
  if (ranks != nullptr) check_ranks(config, ranks->ranks());
  return std::make_unique<CpuEngine>(config, threads, ranks);
}

namespace {

// The experts of each token that both chose, in whatever order, are counted; 0 for a layer that only one has.
std::int64_t equal_routes(const Evaluation& a, const Evaluation& b, std::size_t layer, std::int64_t top_k) {
  if (layer >= a.routes.size() || layer >= b.routes.size()) return 0;
  const auto k = static_cast<std::size_t>(top_k);
  const std::vector<std::int32_t>& x = a.routes[layer];
  const std::vector<std::int32_t>& y = b.routes[layer];
  std::int64_t equal = 0;  // experts of a token are distinct: every pair that is equal is one of both
  for (std::size_t token = 0; token < x.size(); token += k) {
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j < k; ++j) equal += static_cast<std::int64_t>(x[token + i] == y[token + j]);
    }
  }
  return equal;
}

}  // namespace

RecordedEvaluation evaluation_of(TrainingEngine& engine, const TrainingConfig& config,
                                 std::span<const std::uint8_t> validation) {
  const ModelShape& m = config.model;
  const LayerRecipe& bf16_recipe = layer_recipe_named("bf16");
  const std::int64_t sequences = std::ssize(validation) / (m.length + 1);
  RecordedEvaluation e;
  e.step = engine.steps_done();
  e.routes = sequences * m.length * m.top_k;
  e.equal_routes.resize(static_cast<std::size_t>(m.layers));
  double own_sum = 0;
  double bf16_sum = 0;
  for (std::int64_t first = 0; first < sequences; first += kSequencesAtOnce) {
    const std::int64_t count = std::min(kSequencesAtOnce, sequences - first);
    const auto part = validation.subspan(static_cast<std::size_t>(first * (m.length + 1)),
                                         static_cast<std::size_t>(count * (m.length + 1)));
    const Evaluation own = engine.evaluate(config.recipe, part);
    const Evaluation bf16 = config.recipe == bf16_recipe ? own : engine.evaluate(bf16_recipe, part);
    own_sum += static_cast<double>(count) * double{own.loss};
    bf16_sum += static_cast<double>(count) * double{bf16.loss};
    for (std::size_t l = 0; l < e.equal_routes.size(); ++l) e.equal_routes[l] += equal_routes(own, bf16, l, m.top_k);
  }
  const auto mean = [&](double sum) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(sum / static_cast<double>(sequences)));
  };
  e.loss_own = mean(own_sum), e.loss_bf16 = mean(bf16_sum);
  return e;
}

// When a run does what: the intervals that are taken where none are given.

RunPlan plan_of(const TrainingConfig& config, std::int64_t first_step) {
  const auto part = [&](std::int64_t parts) { return std::max<std::int64_t>(1, config.steps / parts); };
  RunPlan plan;
  plan.evaluate_every = part(100), plan.observe_every = part(100), plan.checkpoint_every = part(20);
  plan.validation_sequences = 64;
  for (const std::int64_t step : {std::int64_t{100}, config.steps / 2, config.steps - 1}) {
    if (step > first_step && step < config.steps) plan.kept.push_back(step);
  }
  std::sort(plan.kept.begin(), plan.kept.end());
  plan.kept.erase(std::unique(plan.kept.begin(), plan.kept.end()), plan.kept.end());
  return plan;
}

RunPlan verdict_plan_of(const TrainingConfig& config) {
  RunPlan plan = plan_of(config);
  plan.evaluate_every = std::max<std::int64_t>(1, config.steps / 20), plan.observe_every = config.steps;
  plan.checkpoint_every =
      std::max<std::int64_t>(1, config.steps / 4);  // a GPU makes so many in less time than it takes
  plan.validation_sequences = 2048;
  plan.kept.clear();
  for (const std::int64_t percent : {10, 25, 50, 75}) {
    const std::int64_t step = config.steps * percent / 100;
    if (step > 0 && (plan.kept.empty() || step > plan.kept.back())) plan.kept.push_back(step);
  }
  return plan;
}

void check(const RunPlan& plan, const TrainingConfig& config) {
  if (const std::string wrong = objection_to_plan(plan, config); !wrong.empty()) throw Error(ErrorKind::usage, wrong);
}

std::vector<ConcurrentRunEnd> run_together(std::vector<ConcurrentRun>& runs, const CompanyWatch& watch) {
  std::vector<ConcurrentRunEnd> ends(runs.size());
  std::mutex mutex;
  const auto run_one = [&](std::size_t i) {
    try {
      ends[i].record = run_training(runs[i].request, *runs[i].engine, [&](const RunProgress& progress) {
        const std::lock_guard lock(mutex);
        return !watch || watch(i, progress);
      });
    } catch (...) {
      ends[i].error = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    try {
      threads.emplace_back(run_one, i);
    } catch (...) {  // no thread to be had
      ends[i].error = std::current_exception();
    }
  }
  if (!runs.empty()) run_one(0);
  for (std::thread& thread : threads) thread.join();
  return ends;
}

}  // namespace mxcheck
