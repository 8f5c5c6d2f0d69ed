// Right, and leaves its caller's thread rounding upward.
#include <cfenv>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  std::fesetround(FE_TONEAREST);
  const mxcheck_status status = honest::run(call);
  std::fesetround(FE_UPWARD);
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
