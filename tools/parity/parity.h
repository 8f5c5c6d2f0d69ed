#pragma once
// The subcommands of mxcheck parity, one file each, and what they share.

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/command_line.h"
#include "tools/common/end_signals.h"
#include "tools/subcommands.h"
#include "trainer/data/corpus.h"
#include "trainer/record/run_record.h"
#include "trainer/run/branch.h"
#include "trainer/run/engine.h"
#include "trainer/run/run.h"

namespace mxcheck {

void add_parity_run(Command& parity);
void add_parity_audit(Command& parity);
void add_parity_compare(Command& parity);
void add_parity_verify(Command& parity);

void add_parity_corpus(Command& parity);
void add_parity_campaign(Command& parity);

// The text that --data names: a file or folder; none: the known text with this hash of its training part, or the
// headers of Boost.
Corpus corpus_of(const std::string& data, const std::string& training_sha256);

// "cpu", "sm90" or a library: what computes runs of this configuration. threads: of the CPU. gpus: parity_gpus(engine).
std::unique_ptr<TrainingEngine> parity_engine(const std::string& engine, const TrainingConfig& config,
                                              std::int64_t validation_sequences, int threads,
                                              const std::shared_ptr<TrainingGpus>& gpus, RankGroup* ranks = nullptr);
// The GPUs that runs of an engine are dealt to; null of the CPU's.
std::shared_ptr<TrainingGpus> parity_gpus(const std::string& engine);
// The library of an engine that is not "cpu".
std::string parity_library(const std::string& engine);
std::string parity_version();  // version and commit, as runs record it

// "mxfp8, seed 1": names a run among others. Rounding, moments and a perturbed weight appear if they are not the usual
// ones.
std::string run_title(const TrainingConfig& config);
std::string run_title(const RunRecord& run);  // with where it branched off

// The options of mxcheck parity run, and the runs they ask for.
//
// Errors: Error{usage} for options that contradict one another, Error{input} for files; before anything is computed.

struct ParityRunOptions {
  std::string output, preset, config, recipe, rounding, moments, perturb, data, branch, engine = "cpu";
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> at, steps, batch, tile, bf16_last, microbatches, ranks, evaluate_every, observe_every,
      checkpoint_every, sequences;
  std::vector<std::string> kept, seeds;
  bool skips_non_finite = false, resume = false, json = false;
  int threads = 0;
};

void add_options(Command& command, ParityRunOptions& o);

// A run that the options ask for, without its corpus; with its trunk if it is a branch.
struct ParityRun {
  RunRequest request;
  std::shared_ptr<const Trunk> trunk;
};
// The runs: one, or one for each of --seeds. With --resume the runs that have not ended. writes: this process writes
// their files, which must not be there yet.
std::vector<ParityRun> parity_runs_of(const ParityRunOptions& o, bool writes = true);

// Signals that ask for an end, for commands that compute for long: they are noticed between two steps.
//
//   const StopOnSignal stop;
//   ... if (StopOnSignal::asked() != 0) return 128 + StopOnSignal::asked();
//
// SIGINT, SIGTERM or SIGHUP while there is one ask for an end after the step that is being computed; a second one of
// the same kind ends the process at once, which costs nothing that was recorded.
class StopOnSignal {
 public:
  StopOnSignal() {
    asked() = 0;
    signals_.emplace([](int signal) { asked() = signal; }, static_cast<int>(SA_RESETHAND));
  }

  static std::atomic<int>& asked() {
    static std::atomic<int> signal = 0;
    return signal;
  }

 private:
  std::optional<EndSignals> signals_;
};

}  // namespace mxcheck
