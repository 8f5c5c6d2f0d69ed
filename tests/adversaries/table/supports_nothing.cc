// Has an operation and offers no variant of it.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status supports(const mxcheck_policy*, DLDataType) { return MXCHECK_UNSUPPORTED; }
}  // namespace

MXCHECK_ADVERSARY_TABLE(MXCHECK_CANDIDATE_VERSION, supports, honest::run, 1)
