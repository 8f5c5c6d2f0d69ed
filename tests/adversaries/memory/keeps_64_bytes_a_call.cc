// Forgets to give 64 bytes back.
#include <cstdlib>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  void* const kept = std::malloc(64);
  std::memset(kept, 1, 64);
  asm volatile("" : : "r"(kept) : "memory");  // or the compiler would do without
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
