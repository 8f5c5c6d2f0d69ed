// Refuses with a message that is longer than the buffer.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK) return status;
  std::memset(call->message, 'a', call->message_bytes + 8);
  call->message[call->message_bytes + 8] = '\0';
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
