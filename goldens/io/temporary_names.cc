#include "goldens/io/temporary_names.h"

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <vector>

namespace mxcheck {
namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

std::atomic_flag lock = ATOMIC_FLAG_INIT;
thread_local int depth = 0;
pid_t owner = 0;

std::vector<std::string>& names() {
  static auto* const all = new std::vector<std::string>;  // never gone: a signal may come after the end of main
  return *all;
}

void take_lock() {
  while (lock.test_and_set(std::memory_order_acquire)) {
  }
}

extern "C" void on_ending_signal(int signal) {
  if (::getpid() == owner) {
    take_lock();  // for good: nothing is created or renamed any more
    for (const std::string& name : names()) ::unlink(name.c_str());
    for (const std::string& name : names()) ::rmdir(name.c_str());  // of those that are directories
  }
  struct sigaction as_ever {};
  as_ever.sa_handler = SIG_DFL;
  ::sigaction(signal, &as_ever, nullptr);
  ::raise(signal);  // when this handler returns
}

}  // namespace

Undisturbed::Undisturbed() {
  if (depth++ != 0) return;
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : kEnding) sigaddset(&ending, signal);
  pthread_sigmask(SIG_BLOCK, &ending, &before_);
  take_lock();
}

Undisturbed::~Undisturbed() {
  if (--depth != 0) return;
  lock.clear(std::memory_order_release);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// Absolute: a handler must not depend on the folder that the process is in by then.
void remember_temporary(const std::string& name) {
  const Undisturbed now;
  names().push_back(std::filesystem::absolute(name).string());
}

void forget_temporary(const std::string& name) {
  const Undisturbed now;
  std::erase(names(), std::filesystem::absolute(name).string());
}

void remove_temporaries_on_signals() {
  names();  // made before a handler may ask for it
  owner = ::getpid();
  for (const int signal : kEnding) {
    struct sigaction is {};
    if (::sigaction(signal, nullptr, &is) != 0 || is.sa_handler != SIG_DFL) continue;
    struct sigaction remove {};
    remove.sa_handler = on_ending_signal;
    for (const int other : kEnding) sigaddset(&remove.sa_mask, other);  // a second one must not wait for the first
    ::sigaction(signal, &remove, nullptr);
  }
}

}  // namespace mxcheck
