// Right until the process that used it ends.
#include <cstdlib>

#include "tests/adversaries/honest.h"

namespace {
[[maybe_unused]] const int registered = std::atexit([] { std::abort(); });
}  // namespace

MXCHECK_ADVERSARY(honest::run)
