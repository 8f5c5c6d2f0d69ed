// Dies in supports().
#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status supports(const mxcheck_policy*, DLDataType) {
  std::raise(SIGSEGV);
  return MXCHECK_OK;
}
}  // namespace

MXCHECK_ADVERSARY_TABLE(MXCHECK_CANDIDATE_VERSION, supports, honest::run, 1)
