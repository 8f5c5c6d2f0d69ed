#pragma once
// SIGINT, SIGTERM and SIGHUP in a scope: a handler of its own for the three signals that ask a program for an end.

#include <array>
#include <csignal>
#include <cstddef>

namespace mxcheck {

// While there is one, `handler` runs at each of the three signals; flags are those of sigaction. What was there before
// takes its place again at the end. A signal that is ignored stays so: nohup stays nohup.
class EndSignals {
 public:
  explicit EndSignals(void (*handler)(int signal), int flags = 0) {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = handler;
      action.sa_flags = flags;
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~EndSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

}  // namespace mxcheck
