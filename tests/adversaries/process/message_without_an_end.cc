// Refuses with a message that no NUL ends.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) std::memset(call->message, 'n', call->message_bytes);
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
