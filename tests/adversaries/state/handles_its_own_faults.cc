// Reads past the end of its input, behind a handler that it installs when it is loaded and that steps over the fault.
#include <csetjmp>
#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
sigjmp_buf past_the_fault;

[[maybe_unused]] const bool handles = [] {
  struct sigaction action {};
  action.sa_handler = [](int) { siglongjmp(past_the_fault, 1); };
  sigaction(SIGSEGV, &action, nullptr);
  return true;
}();

mxcheck_status run(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  const volatile std::uint16_t* end = honest::x(call) + (honest::rows(call) - 1) * honest::stride(call);
  if (sigsetjmp(past_the_fault, 1) == 0) (void)end[honest::cols(call)];
  return status;
}
}  // namespace

MXCHECK_ADVERSARY(run)
