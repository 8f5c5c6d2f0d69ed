// Ends with a segmentation fault.
#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call*) {
  std::raise(SIGSEGV);
  return MXCHECK_OK;
}
}  // namespace

MXCHECK_ADVERSARY(run)
