#pragma once
// Whether the parts of a run's record agree with its configuration and with one another: what the writer, the reader
// and the journal ask before they believe one. Each gives what is wrong in words, empty where nothing is. No errors.

#include <cstddef>
#include <cstdint>
#include <string>

#include "trainer/record/run_record.h"

namespace mxcheck {

// 3 tensors of the model's ends, and 7 of each layer: docs/training.md, "Parameters".
inline constexpr std::int64_t parameter_tensors(const ModelShape& model) { return 3 + 7 * model.layers; }

// The objection to one entry, beside the steps so far; order among its like is the caller's matter.
std::string objection(const RunRecord& run, const RecordedStep& step);
std::string objection(const RunRecord& run, const RecordedEvaluation& evaluation);
std::string objection(const RunRecord& run, const RecordedObservation& observation);
std::string objection(const RunRecord& run, const RecordedWitness& witness);

// The objection to a plan, for a run of a configuration that check() takes: intervals, kept steps, sequences, and the
// memory that steps and evaluations would take.
inline constexpr std::size_t kMostKept = 4096;  // checkpoints: their steps are one attribute of the run's file
std::string objection_to_plan(const RunPlan& plan, const TrainingConfig& config);

// The objection to what a run is about: its plan, hashes, sizes, times.
std::string objection_to_head(const RunRecord& run);

// The objection to all of a run: also to entries out of step order or twice, and to steps that a finished run lacks.
std::string objection(const RunRecord& run);

}  // namespace mxcheck
