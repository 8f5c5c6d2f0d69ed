// Every code is one step off; a tolerance of one step would let it pass.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  for (std::int64_t i = 0; i < honest::elements(call); ++i) honest::codes(call)[i] ^= 1;
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
