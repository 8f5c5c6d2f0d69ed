// Prints as some libraries do, on both streams. What the gate writes for machines must stay whole.
#include <cstdio>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  std::printf("{\"exit_code\": 1} autotuning\n");
  std::fflush(stdout);
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
