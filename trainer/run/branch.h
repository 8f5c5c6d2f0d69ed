#pragma once
// Branches: runs that take over from another run, their trunk, after some of its steps, with another recipe, rounding,
// type of moments, or with weights moved. The trunk gone on with is what a branch is compared with: they share all that
// early training makes of chance (docs/parity_rule.md).
//
//   const Trunk trunk = read_trunk("trunk.h5");
//   request.branch = branch_of(trunk, request.config, 1000);
//   request.trunk = [&] { return state_of(trunk, 1000, corpus, make_engine, {}); };
//
// Errors: Error{input} for a trunk that is a branch itself or has not that many steps, and for a corpus that is not the
// trunk's; Error{usage} for a configuration that differs from the trunk's in more than a branch may, naming the first
// field, and for a step that a branch cannot begin after; Error{internal} where the trunk, computed again, does not
// come out as it was recorded.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/data/corpus.h"
#include "trainer/record/run_record.h"
#include "trainer/run/engine.h"

namespace mxcheck {

struct Trunk {
  std::string file;
  RunRecord run;
  std::string sha256;  // of its contents
};
Trunk read_trunk(const std::string& file);

// Where a run of `config` would branch off after `step` steps of the trunk.
RunBranch branch_of(const Trunk& trunk, const TrainingConfig& config, std::int64_t step);

// The same of a trunk that has not ended, by its state after `step` steps; the hash is kTrunkUnderWay.
RunBranch branch_under_way(const std::string& trunk_file, const TrainingConfig& trunk, const TrainingConfig& config,
                           const TrainingState& state);

// True if the trunk was trained on this corpus.
void check_data(const Trunk& trunk, const Corpus& corpus);

// The branch of a file that says where it branched off: that it is of this trunk, and may be.
void check_branch(const RunRecord& branch, const std::string& branch_file, const Trunk& trunk);

// The trunk of a branch: trunk_file, or where that is empty the file of its name in the branch's folder; checked as
// above.
Trunk trunk_beside(const RunRecord& branch, const std::string& branch_file, const std::string& trunk_file);

// The trunk's state after `step` steps: the kept checkpoint there, or from the nearest one before it (without any, from
// the initial state) the steps in between, each as it was recorded. `engine` makes one for the trunk's configuration,
// where steps are computed; `watch`, if there is one, is called before each.
using EngineMaker = std::function<std::unique_ptr<TrainingEngine>(const TrainingConfig&)>;
std::shared_ptr<const TrainingState> state_of(const Trunk& trunk, std::int64_t step, const Corpus& corpus,
                                              const EngineMaker& engine,
                                              const std::function<void(std::int64_t)>& watch);

// Error{internal} unless the state is that of the branch's step and weights.
void check_trunk_state(const TrainingState& state, const RunBranch& branch);

}  // namespace mxcheck
