#pragma once
// Several runs at once in one process, each on a thread with an engine of its own: a small model leaves most of a GPU
// to others, and several processes would have it in turns.
//
//   std::vector<ConcurrentRun> runs;
//   runs.push_back({request, device_engine(request.config, library, 64, 1)});
//   for (const ConcurrentRunEnd& end : run_together(runs, watch)) ...
//
// Errors: none of its own; what run_training throws of a run is returned with it, and the others go on to their end.

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/run/run.h"

namespace mxcheck {

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

}  // namespace mxcheck
