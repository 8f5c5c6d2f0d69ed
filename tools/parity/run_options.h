#pragma once
// The options of mxcheck parity run, and the runs they ask for.
//
// Errors: Error{usage} for options that contradict one another, Error{input} for files; before anything is computed.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/command_line.h"
#include "trainer/run/branch.h"
#include "trainer/run/run.h"

namespace mxcheck {

struct ParityRunOptions {
  std::string output, preset, config, recipe, rounding, moments, perturb, data, branch, engine = "cpu";
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> at, steps, batch, tile, evaluate_every, observe_every, checkpoint_every, sequences;
  std::vector<std::string> kept, seeds;
  bool skips_non_finite = false, resume = false, json = false;
  int threads = 0;
};

void add_options(Command& command, ParityRunOptions& o);

// A run that is asked for, but for its corpus, and its trunk where it is a branch.
struct ParityRun {
  RunRequest request;
  std::shared_ptr<const Trunk> trunk;
};
// One, or one for each of --seeds. With --resume those that have not ended.
std::vector<ParityRun> parity_runs_of(const ParityRunOptions& o);

}  // namespace mxcheck
