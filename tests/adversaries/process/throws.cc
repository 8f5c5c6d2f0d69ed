// A C++ exception leaves a C interface.
#include <stdexcept>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call*) { throw std::runtime_error("not here"); }
}  // namespace

MXCHECK_ADVERSARY(run)
