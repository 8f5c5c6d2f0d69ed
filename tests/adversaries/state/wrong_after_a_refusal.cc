// A refused call spoils the next one.
#include <utility>

#include "tests/adversaries/honest.h"

namespace {
bool refused = false;

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  const bool spoils = std::exchange(refused, status == MXCHECK_INVALID);
  if (status == MXCHECK_OK && spoils && honest::elements(call) != 0) honest::codes(call)[0] ^= 1;
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
