#pragma once
// The shard of a run that this machine has: --shard, and the environment that its words read.
//
//   shard_choice("2/4", environment).shard       // the second of four
//   shard_choice("slurm", environment).shard     // the task of a job array that this is
//
// A scheduler's variables are read only where its word asks for them, so that a run is never dealt by surprise.

#include <functional>
#include <string>

#include "properties/gate/dealing.h"

namespace mxcheck {

// A variable of the environment; null where it is not set.
using Environment = std::function<const char*(const char* name)>;

struct ShardChoice {
  Shard shard;
  std::string status_file;  // to be touched: whoever started this asks whether shards are known here; empty: nobody
};

// "" (the whole run), "I/N", "slurm" (SLURM_ARRAY_TASK_*), "slurm/N" (SLURM_ARRAY_TASK_ID, from 1), "kubernetes/N"
// (JOB_COMPLETION_INDEX, from 0), "gtest" (GTEST_TOTAL_SHARDS, ...), "bazel" (TEST_TOTAL_SHARDS, ...) or "gitlab"
// (CI_NODE_INDEX, CI_NODE_TOTAL). Error{usage} for another word and for variables that make no sense; gtest's and
// Bazel's are absent where the run is not dealt.
ShardChoice shard_choice(const std::string& text, const Environment& environment);

// Error{usage} where the file cannot be made.
void touch(const std::string& path);

}  // namespace mxcheck
