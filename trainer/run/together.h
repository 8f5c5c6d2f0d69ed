#pragma once
// Several runs at once in one process, each on a thread with an engine of its own: a small model leaves most of a GPU
// to others, and several processes would have it in turns.
//
//   std::vector<RunInCompany> runs;
//   runs.push_back({request, device_engine(request.config, library, 64, 1)});
//   const std::vector<RunRecord> records = run_together(runs, watch);
//
// Errors: those of run_training. The others go on to their end first; then the first error is thrown.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/run/run.h"

namespace mxcheck {

struct RunInCompany {
  RunRequest request;
  std::unique_ptr<TrainingEngine> engine;
};

// Called after each step of run `index`, by one thread at a time; false: that run writes a checkpoint and returns.
using CompanyWatch = std::function<bool(std::size_t index, const RunProgress&)>;

std::vector<RunRecord> run_together(std::vector<RunInCompany>& runs, const CompanyWatch& watch);

}  // namespace mxcheck
