#pragma once
// Ways to spoil a good call, each of which a candidate must refuse.

#include <span>

#include "properties/process/candidate_process.h"

namespace mxcheck {

struct Spoiled {
  const char* how;
  bool (*spoil)(Call& call);  // false: not applicable to this call
};

// Of routers alone (properties/operations/router/refusals.cc).
std::span<const Spoiled> spoiled_routes();

}  // namespace mxcheck
