#pragma once
// Signals that ask for an end, for commands that compute for long: they are noticed between two steps.
//
//   const StopOnSignal stop;
//   ... if (StopOnSignal::asked() != 0) return 128 + StopOnSignal::asked();
//
// Errors: none.

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace mxcheck {

// SIGINT, SIGTERM or SIGHUP while there is one ask for an end after the step that is being computed; a second one of
// the same kind ends the process at once, which costs nothing that was recorded. What came before takes its place again
// at the end.
class StopOnSignal {
 public:
  StopOnSignal() {
    asked() = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = [](int signal) { asked() = signal; };
      action.sa_flags = static_cast<int>(SA_RESETHAND);
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup stays nohup
    }
  }
  ~StopOnSignal() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static std::atomic<int>& asked() {
    static std::atomic<int> signal = 0;
    return signal;
  }

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
};

}  // namespace mxcheck
