// Starts a process that outlives it, with every descriptor still open, and is wrong besides.
#include <unistd.h>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  static const pid_t child = fork();
  if (child == 0) {
    sleep(60);
    _exit(0);
  }
  return honest::check(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
