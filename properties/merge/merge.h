#pragma once
// The reports of a run's shards as the report of the run.

//
//   const GateReport run = merged(read_reports({"1.json", "2.json"}));
//   exit_code(run)
//
// The same bytes but for times as the report of one run without shards, in whatever order the files are given.

#include <string>
#include <string_view>
#include <vector>

#include "properties/gate/gate.h"

namespace mxcheck {

struct ShardReport {
  std::string name;  // of its file
  GateReport report;
  bool has_variants_of_first = false;  // and none in report: of a thousand reports, one keeps them
};

// Counts are added; the coverage of a domain is the union of the shards', and is judged here alone. A statement that
// failed in a shard has failed; of several counterexamples the one of the smallest case is kept.
//
// Error{input} that names the two files where they are not of one run: another mxcheck, candidate, suite, seed or
// selection, another number of shards, the same shard twice; or where a report is of this machine's run as a whole. A
// shard that is missing is no error: it is in missing_shards, and the run is inconclusive.
GateReport merged(std::vector<ShardReport> shards);

// Error{input} that names both where they are not the same part of one run, or of one run both as a whole.
void require_same_shard(const ShardReport& a, const ShardReport& b);

// The output of mxcheck gate --json, read back as a report (report_reader.cc).
//
// Does not read soaks. Of a counterexample all comes back that a report prints, not the words of the elements that
// differ.
//
// Errors: Error{input} that begins with the file's name, for whatever is no such report, is of another mxcheck's
// statements or operations, or holds a number that cannot be.

// where: what errors begin with.
GateReport report_from_json(std::string_view text, const std::string& where);

// Error{input} also for more than 1 GiB.
ShardReport read_report(const std::string& file);

// Reads several files, side by side, in their order: the variants, which fill most of a small shard's report, are
// the first report's wherever they are the same.
std::vector<ShardReport> read_reports(const std::vector<std::string>& files);

}  // namespace mxcheck
