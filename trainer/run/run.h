#pragma once
// A run of training, recorded step by step: what `mxcheck parity run` does.
//
// While it runs there are, beside OUT: OUT.journal, to which every step is appended as it is done, and OUT.checkpoint,
// the state it goes on from. When it ends OUT is written and both are removed. A run that was interrupted, however it
// was, goes on with `resume`: from the checkpoint, through the steps that the journal already has, which must come out
// as they were recorded, to new ones. The bits are those of a run that was never stopped.
//
//   RunRequest request{.out = "run.h5", .config = config, .plan = plan_of(config), .corpus = &corpus};
//   const RunRecord record = run_training(request, *engine, progress);
//
// A branch (branch.h) begins with its trunk's state in place of the configuration's.
//
// Checkpoints that are kept are written beside the steps that follow; the run ends when they are on the disk.
//
// A run that fails before its first step is done leaves no journal: where memory is short there is nothing to remove.
//
// Errors: Error{usage} where OUT or its journal is there already, cannot be a file's name, or where there is none to go
// on with; Error{input}
// for files of another run; Error{internal} where a step comes out otherwise than recorded: then the machine, or the
// program, is not what it was; Error{environment} for a full disk. What was recorded stays as it is.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/config/config.h"  // kSequencesAtOnce
#include "trainer/data/corpus.h"
#include "trainer/record/run_record.h"
#include "trainer/run/engine.h"

namespace mxcheck {

// A hundredth of the steps between evaluations and between observations, a twentieth between checkpoints, 64 sequences;
// checkpoints kept before step 100, the middle and the last one, where the run has them.
RunPlan plan_of(const TrainingConfig& config, std::int64_t first_step = 0);
// The plan of runs that decide: 20 evaluations of 2,048 sequences, the first step alone observed (with many tokens a
// step that takes a CPU half a minute), a checkpoint every quarter of the steps (a GPU makes a hundred steps in the
// time that it takes to write one), and checkpoints kept to branch off from after 10, 25, 50 and 75 % of the steps.
RunPlan verdict_plan_of(const TrainingConfig& config);
// Error{usage} for what objection_to_plan (trainer/record/run_file.h) says.
void check(const RunPlan& plan, const TrainingConfig& config);

struct RunRequest {
  std::string out;
  TrainingConfig config;
  RunPlan plan;
  const Corpus* corpus = nullptr;
  std::string mxcheck;  // version and commit, recorded
  bool resume = false;  // then config and plan are those of the journal; what is given here must agree
  std::optional<RunBranch> branch;
  // The source of the trunk's state, for a branch, called where the run does not go on from a checkpoint of its own.
  std::function<std::shared_ptr<const TrainingState>()> trunk;
  // The hash of the trunk's file, for a branch whose trunk is kTrunkUnderWay, called when the branch has ended; none:
  // the trunk was stopped, and the run stays unfinished.
  std::function<std::optional<std::string>()> trunk_sha256;
  // Given each state that a checkpoint is kept of, while the file is being written.
  std::function<void(std::shared_ptr<const TrainingState>)> keeps;
};

struct RunProgress {
  std::int64_t step = 0;  // done
  std::int64_t steps = 0;
  float loss = 0;
  float gradient_norm = 0;
  std::int64_t tokens = 0;  // of this sitting
  double seconds = 0;       // of this sitting
};

// Called after each step; false: write a checkpoint and return, the run unfinished.
using RunWatch = std::function<bool(const RunProgress&)>;

// Error{usage} where OUT, its journal or a checkpoint that it would keep is there already; run_training begins with it,
// unless it goes on.
void check_fresh(const RunRequest& request);

RunRecord run_training(const RunRequest& request, TrainingEngine& engine, const RunWatch& watch);

std::string journal_of(const std::string& out);
std::string checkpoint_of(const std::string& out);
std::string kept_checkpoint_of(const std::string& out, std::int64_t step);  // run.h5: run.step5000.h5

// The outcome of step `step`, as it is recorded.
RecordedStep recorded(const StepOutcome& outcome);
RecordedWitness witness(std::int64_t step, const StepOutcome& outcome);

// Several runs at once in one process, each on a thread with an engine of its own: a small model leaves most of a GPU
// to others, and several processes would have it in turns.
//
//   std::vector<ConcurrentRun> runs;
//   runs.push_back({request, device_engine(request.config, library, 64, 1)});
//   for (const ConcurrentRunEnd& end : run_together(runs, watch)) ...
//
// Errors: none of its own; what run_training throws of a run is returned with it, and the others go on to their end.

struct ConcurrentRun {
  RunRequest request;
  std::unique_ptr<TrainingEngine> engine;
};

struct ConcurrentRunEnd {
  RunRecord record;          // where there is no error
  std::exception_ptr error;  // null: none
};

// Called after each step of run `index`, by one thread at a time; false: that run writes a checkpoint and returns.
using CompanyWatch = std::function<bool(std::size_t index, const RunProgress&)>;

// The end of each run, in their order.
std::vector<ConcurrentRunEnd> run_together(std::vector<ConcurrentRun>& runs, const CompanyWatch& watch);

// --- evaluations
//
// An evaluation as a run records it: losses over the validation set under the recipe `bf16` and under the run's own,
// and the routes that both choose.
//
// Sequences are computed in parts of kSequencesAtOnce, the last of those that are left. The loss is
// RN32(sum over the parts of sequences x loss / all sequences), FP32 losses in FP64, part after part: one part's own
// loss where there is one.
//
// Errors: those of TrainingEngine::evaluate.

// The evaluation of the engine's weights. validation: sequences x (length + 1) bytes.
RecordedEvaluation evaluation_of(TrainingEngine& engine, const TrainingConfig& config,
                                 std::span<const std::uint8_t> validation);

}  // namespace mxcheck
