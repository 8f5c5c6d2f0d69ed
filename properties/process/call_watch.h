#pragma once
// State that a library may not change in the process that calls it: the floating-point environment, the handlers of the
// signals by which a fault is seen, the signal mask, and what process_state.h has. Looked at before and after a call; a
// change is put into words and undone, so that each call is blamed for its own.

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

#include "properties/process/process_state.h"
#include "properties/process/wire.h"

namespace mxcheck {

// Rounding, flushing and masks of exceptions of this thread; the exceptions that were raised are no part of it.
struct FloatingPoint {
  std::uint32_t control = 0;  // x86: MXCSR; elsewhere the rounding mode
  std::uint16_t x87 = 0;
  static FloatingPoint now();
  void restore() const;
  friend bool operator==(const FloatingPoint&, const FloatingPoint&) = default;
};
// ": rounding upward, flush to zero"
std::string to_text(const FloatingPoint& environment);

class SignalHandlers {
 public:
  static SignalHandlers now();
  // Puts back the handlers that differ from these; returns the differences in words, empty: none. `all`: else only the
  // handlers that hide an access outside of a tensor.
  [[nodiscard]] std::string undo_changes(bool all) const;

 private:
  static constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
  std::array<struct sigaction, kSignals.size()> actions_{};
};

class CallWatch {
 public:
  // Handlers and state that must be there after the call; both outlive this.
  CallWatch(const SignalHandlers& handlers, const ProcessState& process);
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
  [[nodiscard]] std::string undo_changes() const;

 private:
  const SignalHandlers& handlers_;
  const ProcessState& process_;
  FloatingPoint floating_point_;
  sigset_t mask_{};
};

// The reply's conduct, or one more.
void add_conduct(wire::Reply& reply, const std::string& what);

}  // namespace mxcheck
