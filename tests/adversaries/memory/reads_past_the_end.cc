// Reads the element after the last and makes no use of it.
#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  const std::int64_t last = (honest::rows(call) - 1) * honest::stride(call) + honest::cols(call) - 1;
  [[maybe_unused]] const volatile std::uint16_t unused =
      static_cast<const volatile std::uint16_t*>(honest::x(call))[last + 1 + honest::stride(call) - honest::cols(call)];
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
