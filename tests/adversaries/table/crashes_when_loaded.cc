// Dies while it is loaded.
#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
[[maybe_unused]] const int dead = std::raise(SIGABRT);
}  // namespace

MXCHECK_ADVERSARY(honest::run)
