// Depends on how often it was called.
#include "tests/adversaries/honest.h"

namespace {
int calls = 0;

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (++calls % 100 == 0 && status == MXCHECK_OK && honest::elements(call) != 0) honest::codes(call)[0] ^= 1;
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
