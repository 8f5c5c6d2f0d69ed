#pragma once
// Which shard of a run this machine has: --shard, and what its words read from the environment.

#include <functional>
#include <string>

#include "properties/gate/shard.h"

namespace mxcheck {

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
