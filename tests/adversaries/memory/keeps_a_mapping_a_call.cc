// Maps 4 KB in every call, touches none of them and unmaps none.
#include <sys/mman.h>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  // Of alternating protection, or the kernel would make one mapping of all.
  static int calls = 0;
  (void)mmap(nullptr, 4096, ++calls % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
