// The empty kernel: success is returned and nothing done.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) { return honest::check(call); }
}  // namespace

MXCHECK_ADVERSARY(run)
