#pragma once
// The state of a run between two steps as an HDF5 file of kind "parity checkpoint", from which the run goes on to the
// same bits: docs/parity.md has it as a table.
//
//   write_checkpoint("run.h5.5000", {config, corpus.training_sha256, state});
//   const Checkpoint c = read_checkpoint("run.h5.5000");
//   check_belongs(c, run, "run.h5.5000");
//
// Equal checkpoints give equal bytes. The file appears whole or not at all, and has the SHA-256 of its contents in it.
// It has 12 bytes a weight, 8 with moments in BF16.
//
// Errors: write_checkpoint Error{usage} for a state that is not of its configuration, moments that BF16 cannot hold
// where it is to, and a path that cannot be written, Error{environment} for a full disk; read_checkpoint Error{input},
// one line with path and place, for a file that is truncated, altered, of another kind or version, or whose parts do
// not agree; check_belongs Error{input}, for another configuration naming the first field that differs.

#include <filesystem>
#include <string>

#include "reference/training/optimizer.h"
#include "trainer/record/run_record.h"
#include "trainer/record/sealed_file.h"

namespace mxcheck {

inline constexpr const char* kCheckpointKind = "parity checkpoint";

struct Checkpoint {
  TrainingConfig config;
  std::string training_sha256;  // of the data that it was trained on
  TrainingState state;
};

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
Checkpoint read_checkpoint(const std::filesystem::path& path);

// The same without a file: what write_checkpoint writes, and what read_checkpoint makes of what was read.
UnverifiedGolden contents_of(const Checkpoint& checkpoint);
Checkpoint checkpoint_in(const SealedReader& file);

// True if the run that `run` records can go on from it: the same configuration and training data, at most as many steps
// as were recorded, and the weights whose digest was recorded. `path` is for messages.
void check_belongs(const Checkpoint& checkpoint, const RunRecord& run, const std::filesystem::path& path);

// "model.width is 64, but 96": the first field in which they differ, b's last; empty where they are equal.
std::string first_difference(const TrainingConfig& a, const TrainingConfig& b);

// The digest of all weights, as steps are recorded with it.
std::uint64_t weights_digest(const TrainingState& state);

}  // namespace mxcheck
