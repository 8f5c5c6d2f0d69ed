#pragma once
// mxcheck parity run on several processes: the ranks' connections, over sockets and NCCL, and a rank's part of the run.
//
// Errors: what kernels/parallel says of ranks is printed, and becomes an exit code.

#include <functional>

#include "tools/parity/parity.h"
#include "trainer/run/ranks.h"

namespace mxcheck {

// Rank 0's part: the whole run, with the group; the exit code.
using LeadRun = std::function<int(RankGroup& ranks)>;
// The configuration of rank 0, before it leads.
using LeadConfig = std::function<TrainingConfig()>;

// Launches the ranks, or is one where the environment says so. The exit code.
int run_ranks(const ParityRunOptions& o, const LeadConfig& config, const LeadRun& lead);

}  // namespace mxcheck
