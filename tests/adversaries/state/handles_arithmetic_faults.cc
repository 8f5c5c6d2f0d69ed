// Right, and leaves a handler of SIGFPE and a blocked SIGTRAP behind in its first call.
#include <pthread.h>

#include <csignal>

#include "tests/adversaries/honest.h"

namespace {
mxcheck_status run(const mxcheck_call* call) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGFPE, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTRAP);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  return honest::run(call);
}
}  // namespace

MXCHECK_ADVERSARY(run)
