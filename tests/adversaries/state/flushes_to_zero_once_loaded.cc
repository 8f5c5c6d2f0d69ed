// What -ffast-math links into a shared library: its constructor makes the loading thread flush subnormals to zero.
#if defined(__SSE__)
  #include <immintrin.h>
#endif

#include "tests/adversaries/honest.h"

namespace {
[[maybe_unused]] const bool flushes = [] {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
  return true;
}();
}  // namespace

MXCHECK_ADVERSARY(honest::run)
