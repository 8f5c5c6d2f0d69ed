// Has state that only the thread of its first call sees.
#include <thread>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  static const std::thread::id first = std::this_thread::get_id();
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && honest::elements(call) != 0 && std::this_thread::get_id() != first)
    honest::codes(call)[0] ^= 1;
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
