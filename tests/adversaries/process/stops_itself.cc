// Stops its process, which then neither answers nor ends.
#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  std::raise(SIGSTOP);
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
