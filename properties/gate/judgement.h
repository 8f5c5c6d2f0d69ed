#pragma once
// The verdict of a statement whose cases have all run without a counterexample.

#include <string>

#include "properties/gate/gate.h"

namespace mxcheck {

// Why a statement has no verdict of its own in a shard: read by whoever merges shards.
inline constexpr std::string_view kNoCaseOfShard = "no case of it falls to this shard";

// not_checked: why the first case that could not be checked was not, or empty; never: why no case can have a model, or
// empty. A shard's coverage says nothing: what it has not met, others have.
void judge(StatementResult& result, const std::string& not_checked, const std::string& never, const Shard& shard);

}  // namespace mxcheck
