// Ends its process, content with itself.
#include <cstdlib>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call*) { std::exit(0); }
}  // namespace

MXCHECK_ADVERSARY(run)
