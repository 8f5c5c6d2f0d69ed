// Right, and stops the process that waits for it.
#include <unistd.h>

#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  kill(getppid(), SIGSTOP);
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
