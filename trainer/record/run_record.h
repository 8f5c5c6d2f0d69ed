#pragma once
// A run of training as it is kept: its configuration, what every step gave, evaluations, observations, and digests of
// all tensors at some steps, which an audit compares with. Floats are kept as their bits. docs/parity.md draws the
// file.
//
// Errors: Error{usage} of run_end_named, which lists the names.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/names.h"

#include "reference/training/step.h"

namespace mxcheck {

enum class RunEnd : std::uint8_t { unfinished, finished, diverged };
inline constexpr std::array<Named<RunEnd>, 3> kRunEnds{
    {{"unfinished", RunEnd::unfinished}, {"finished", RunEnd::finished}, {"diverged", RunEnd::diverged}}};
inline RunEnd run_end_named(std::string_view name) { return entry_named(kRunEnds, "end of a run", name).value; }
inline std::string_view to_text(RunEnd end) { return name_in(kRunEnds, end); }

struct RecordedStep {
  std::uint32_t loss = 0;           // FP32 bits
  std::uint32_t balance_loss = 0;   // FP32 bits
  std::uint32_t gradient_norm = 0;  // FP32 bits
  std::uint32_t rate = 0;           // FP32 bits
  std::uint64_t weights = 0;        // digest of all weights after the step
  std::int64_t skipped = 0;         // elements of weights that were not updated: all, where the norm was not finite
  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

// After `step` steps, over the validation set; routes are those of token choice on the same input.
struct RecordedEvaluation {
  std::int64_t step = 0;
  std::uint32_t loss_bf16 = 0;             // FP32 bits: the weights under the recipe bf16, by which runs are compared
  std::uint32_t loss_own = 0;              // under the run's own recipe
  std::vector<std::int64_t> equal_routes;  // by layer: tokens' experts chosen under both recipes
  std::int64_t routes = 0;                 // tokens x top_k, of which equal_routes are a part
  friend bool operator==(const RecordedEvaluation&, const RecordedEvaluation&) = default;
};

// The observation of step `step`'s computation, by layer.
struct RecordedObservation {
  std::int64_t step = 0;
  std::vector<LayerObservation> layers;
  friend bool operator==(const RecordedObservation&, const RecordedObservation&) = default;
};

// The digests that an audit of step `step` compares with, beside RecordedStep.
struct RecordedWitness {
  std::int64_t step = 0;
  std::vector<std::uint64_t> parameters;  // digest of each weight tensor after the step
  std::vector<std::uint64_t> layers;      // digest of the residual stream after each layer, in the step
  friend bool operator==(const RecordedWitness&, const RecordedWitness&) = default;
};

// When a run does what besides stepping. Steps are counted from 0; a thing due "every n" is due at 0, n, 2n, ...
struct RunPlan {
  std::int64_t evaluate_every = 1;        // and after the last step
  std::int64_t observe_every = 1;         // a witness too
  std::int64_t checkpoint_every = 1;      // of the checkpoint that an interrupted run goes on from
  std::int64_t validation_sequences = 1;  // of which an evaluation reads so many
  std::vector<std::int64_t> kept;         // steps before which a checkpoint is kept, with a witness; ascending
  [[nodiscard]] bool evaluates_before(std::int64_t step) const { return step % evaluate_every == 0; }
  [[nodiscard]] bool observes(std::int64_t step) const { return step % observe_every == 0; }
  [[nodiscard]] bool keeps(std::int64_t step) const { return std::find(kept.begin(), kept.end(), step) != kept.end(); }
  // True if a step of a run of so many has a witness: also the first two and the last, where audits begin and end.
  [[nodiscard]] bool witnesses(std::int64_t step, std::int64_t steps) const {
    return observes(step) || keeps(step) || step <= 1 || step + 1 == steps;
  }
  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

// Where a run begins that is a branch: with the weights and moments that another run, its trunk, had after so many
// steps (docs/training.md, "Branches").
struct RunBranch {
  std::string trunk;          // SHA-256 of the contents of the trunk's file, in a journal maybe kTrunkUnderWay
  std::string file;           // its name then, without folders: where to look for it
  std::int64_t step = 0;      // steps that the trunk had done: the branch's first is the one of this number
  std::uint64_t weights = 0;  // digest of all weights that the trunk had there
  friend bool operator==(const RunBranch&, const RunBranch&) = default;
};

// In the journal of a branch that began before its trunk had ended: no file's hash. Its own file has the trunk's.
inline constexpr std::string_view kTrunkUnderWay = "0000000000000000000000000000000000000000000000000000000000000000";

struct RunRecord {
  TrainingConfig config;
  RunPlan plan;
  std::optional<RunBranch> branch;  // absent: the run began with its configuration's initial state
  std::string corpus;               // what the data was: "boost headers 1.74", a path as it was given
  std::string training_sha256;      // of the part that is trained on
  std::int64_t training_bytes = 0;
  std::string validation_sha256;  // of the part that evaluations read
  std::int64_t validation_bytes = 0;
  std::string mxcheck;        // version and commit
  std::string engine;         // "cpu", "sm90"
  std::string device;         // the machine's own name for it
  std::string started;        // UTC, ISO 8601
  double seconds = 0;         // of computation, over all sittings
  std::int64_t sittings = 1;  // times the run was started or resumed
  RunEnd end = RunEnd::unfinished;
  std::vector<RecordedStep> steps;  // steps[i] is step first_step() + i; up to config.steps where it finished
  std::vector<RecordedEvaluation> evaluations;
  std::vector<RecordedObservation> observations;
  std::vector<RecordedWitness> witnesses;

  [[nodiscard]] std::int64_t first_step() const { return branch ? branch->step : 0; }
  [[nodiscard]] std::int64_t steps_done() const { return first_step() + static_cast<std::int64_t>(steps.size()); }
  // number: first_step() to steps_done() - 1.
  [[nodiscard]] const RecordedStep& step(std::int64_t number) const {
    return steps[static_cast<std::size_t>(number - first_step())];
  }
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

}  // namespace mxcheck
