// Never returns.
#include <unistd.h>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call*) {
  for (;;) pause();
}
}  // namespace

MXCHECK_ADVERSARY(run)
