// Right outputs, and x is zero afterwards.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && honest::elements(call) != 0) std::memset(honest::x(call), 0, 2);
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
