#pragma once
// A run of training as an HDF5 file of kind "parity": docs/parity.md has it as a table.
//
//   write_run("run.h5", record);          read_run("run.h5") == record, to the bit
//
// Equal records give equal bytes (under the same zlib: data is deflated). The file appears whole or not at all, and has
// the SHA-256 of its contents in it.
//
// Errors: write_run Error{usage} for a record whose parts do not agree and for a path that cannot be written,
// Error{environment} for a full disk; read_run Error{input}, one line with path and place, for a file that is
// truncated, altered, of another kind or version, or whose parts do not agree.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/record/run_record.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {

inline constexpr const char* kRunKind = "parity";

void write_run(const std::filesystem::path& path, const RunRecord& run);
RunRecord read_run(const std::filesystem::path& path);

// The hash in the run's file, by which branches name their trunk.
std::string sha256_of(const RunRecord& run);

// The same without a file: what write_run writes, and what read_run makes of what was read.
UnverifiedGolden contents_of(const RunRecord& run);
RunRecord run_in(SealedReader file);

// Checks that the parts of a run's record agree with its configuration and one another: what the writer, the reader
// and the journal ask before they believe one. Each gives what is wrong in words, empty where nothing is. No errors.

// 3 tensors of the model's ends, and 7 of each layer: docs/training.md, "Parameters".
constexpr std::int64_t parameter_tensors(const ModelShape& model) { return 3 + 7 * model.layers; }

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
