// Closes every descriptor that it did not open.
#include <unistd.h>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  for (int fd = 3; fd < 256; ++fd) close(fd);
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
