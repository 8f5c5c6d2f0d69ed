#include "tests/libraries/wrong/stamp.h"

#include <cstdio>
#include <cstdlib>

namespace mxcheck_faults {

Stamp stamp = kUnstamped;

namespace {

__attribute__((constructor)) void require_a_stamp() {
  if (stamp.number >= 0) return;
  std::fprintf(stderr, "a library of faults: %s\n", stamp.name);
  std::abort();
}

}  // namespace
}  // namespace mxcheck_faults
