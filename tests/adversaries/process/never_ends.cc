// Right, and waits for ever when the process that used it ends.
#include <unistd.h>

#include <cstdlib>

#include "tests/adversaries/honest.h"

namespace {
[[maybe_unused]] const int registered = std::atexit([] {
  for (;;) pause();
});
}  // namespace

MXCHECK_ADVERSARY(honest::run)
