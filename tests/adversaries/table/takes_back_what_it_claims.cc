// Claims to support a variant and refuses every call.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call*) { return MXCHECK_UNSUPPORTED; }
}  // namespace

MXCHECK_ADVERSARY(run)
