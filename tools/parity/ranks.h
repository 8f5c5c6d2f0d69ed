#pragma once
// mxcheck parity run on several processes: the ranks' connections, over sockets and NCCL, and a rank's part of the run.
//
// Each rank may have arguments and files of its own. Before the first step all compare version, options, library,
// configuration and data; the first that differs is named with the ranks that differ.
//
// Errors: what kernels/parallel says of ranks is printed, and becomes an exit code.

#include <functional>
#include <string>

#include "reference/training/model.h"
#include "tools/parity/parity.h"
#include "trainer/run/ranks.h"

namespace mxcheck {

// Rank 0's part: the whole run, with the group; the exit code.
using LeadRun = std::function<int(RankGroup& ranks)>;
// A rank's own configuration and data, by its own options and files.
struct RankInputs {
  TrainingConfig config;
  std::string training_sha256, validation_sha256;
};
// of_first: rank 0's, for the other ranks of a resumed run, whose journal is rank 0's; else null.
using InputsOf = std::function<RankInputs(int rank, const RankInputs* of_first)>;

// Launches the ranks, or is one where the environment says so. The exit code.
int run_ranks(const ParityRunOptions& o, const InputsOf& inputs, const LeadRun& lead);

}  // namespace mxcheck
