#pragma once
// The reports of a run's shards as the report of the run.

#include <string>
#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {

struct ShardReport {
  std::string name;  // of its file
  GateReport report;
};

// Counts are added; what was met of a domain is what any shard met, and is judged here alone. A statement that failed
// in a shard has failed; of several counterexamples the one of the smallest case is kept.
//
// Error{input} that names the two files where they are not of one run: another mxcheck, candidate, suite, seed or
// selection, another number of shards, the same shard twice; or where a report is of this machine's run as a whole. A
// shard that is missing is no error: it is in missing_shards, and the run is inconclusive.
GateReport merged(std::vector<ShardReport> shards);

}  // namespace mxcheck
