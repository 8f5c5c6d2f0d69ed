#pragma once
// The output of gate and merge about a run: on standard output, and in the files that were asked for.

#include <functional>
#include <map>
#include <string>

#include "properties/gate/gate.h"
#include "properties/report/report.h"
#include "tools/common/command_line.h"

namespace mxcheck {

struct OutputOptions {
  std::string junit;
  std::string html;
  std::string report;
  std::string source;
  bool github = false;
  bool json = false;
  bool coverage = false;
};

// --junit, --html, --report, --json, --coverage, --github, --source.
void add_outputs(Command& command, OutputOptions& options);

// Error{usage} for a path that cannot be written: before anything runs.
void check_outputs(const OutputOptions& options);

// Runs `write`; keeps in the report why a file could not be written.
void attempt(GateReport& report, const std::function<void()>& write);

// --source: "FILE" or "FILE:LINE".
SourcePlace source_place(const std::string& text);

// Files first, so that the exit code that is printed is that of the process. pictures: as gate_page takes them.
void write_outputs(const OutputOptions& options, GateReport& report,
                   const std::map<std::string, ExamplePictures>& pictures);

// The process's exit code, once all has been said. Error{environment} where a file could not be written and nothing
// worse is known.
int end_code(const GateReport& report);

// The shard of a run that this machine has: --shard, and the environment that its words read.

// A variable of the environment; null where it is not set.
using Environment = std::function<const char*(const char* name)>;

struct ShardChoice {
  Shard shard;
  std::string status_file;  // to be touched: whoever started this asks whether shards are known here; empty: nobody
};

// "" (the whole run), "I/N", "slurm" (SLURM_ARRAY_TASK_*), "gtest" (GTEST_TOTAL_SHARDS, ...), "bazel"
// (TEST_TOTAL_SHARDS, ...) or "gitlab" (CI_NODE_INDEX, CI_NODE_TOTAL). Error{usage} for another word and for variables
// that make no sense; gtest's and Bazel's are absent where the run is not dealt.
ShardChoice shard_choice(const std::string& text, const Environment& environment);

// Error{usage} where the file cannot be made.
void touch(const std::string& path);

}  // namespace mxcheck
