// Reports success for large shapes without having run.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::check(call);
  if (status == MXCHECK_OK && honest::elements(call) <= 16384) honest::quantize(call);
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
