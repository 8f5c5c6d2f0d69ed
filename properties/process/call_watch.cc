#include "properties/process/call_watch.h"

#include <cfenv>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
  #include <immintrin.h>
#endif

namespace mxcheck {
namespace {

void add(std::string& text, const std::string& more, const char* between) {
  if (!more.empty()) text += (text.empty() ? "" : between) + more;
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    case SIGABRT: return "SIGABRT";
    default: return "SIGTRAP";
  }
}

}  // namespace

#if defined(__x86_64__)
namespace {
constexpr std::uint32_t kRaised = 0x3F;  // MXCSR: exceptions that have occurred
constexpr std::uint32_t kDenormalsAreZero = 0x40;
constexpr std::uint32_t kMasks = 0x1F80;  // set: the exception does not trap
constexpr std::uint32_t kFlushToZero = 0x8000;
}  // namespace

FloatingPoint FloatingPoint::now() {
  FloatingPoint is;
  is.control = _mm_getcsr() & ~kRaised;
  asm volatile("fnstcw %0" : "=m"(is.x87));
  return is;
}

void FloatingPoint::restore() const {
  _mm_setcsr(control);
  asm volatile("fldcw %0" : : "m"(x87));
}

std::string to_text(const FloatingPoint& environment) {
  static constexpr const char* kRounding[] = {"to nearest", "downward", "upward", "toward zero"};
  std::string text = std::string("rounding ") + kRounding[environment.control >> 13 & 3];
  if ((environment.control & kFlushToZero) != 0) text += ", results flushed to zero";
  if ((environment.control & kDenormalsAreZero) != 0) text += ", subnormals read as zero";
  if ((environment.control & kMasks) != kMasks) text += ", exceptions trap";
  char x87[32];
  std::snprintf(x87, sizeof(x87), ", x87 control word %04x", environment.x87);
  return text + x87;
}
#else
FloatingPoint FloatingPoint::now() { return {static_cast<std::uint32_t>(std::fegetround()), 0}; }
void FloatingPoint::restore() const { std::fesetround(static_cast<int>(control)); }
std::string to_text(const FloatingPoint& environment) { return "rounding mode " + std::to_string(environment.control); }
#endif

SignalHandlers SignalHandlers::now() {
  SignalHandlers all;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &all.actions_[i]);
  return all;
}

std::string SignalHandlers::undo_changes(bool all) const {
  std::string text;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction is {};
    sigaction(kSignals[i], nullptr, &is);
    // The flags say nothing: the C library adds one to those that it sets.
    if (is.sa_handler == actions_[i].sa_handler) continue;
    const bool hides = kSignals[i] == SIGSEGV || kSignals[i] == SIGBUS;
    if (!hides && !all) continue;
    add(text, std::string("installed a handler for ") + name_of(kSignals[i]), ", ");
    if (hides) text += ", which hides accesses outside of tensors";
    sigaction(kSignals[i], &actions_[i], nullptr);
  }
  return text;
}

CallWatch::CallWatch(const SignalHandlers& handlers) : handlers_(handlers), floating_point_(FloatingPoint::now()) {
  pthread_sigmask(SIG_BLOCK, nullptr, &mask_);
}

std::string CallWatch::undo_changes() const {
  std::string text = handlers_.undo_changes(true);
  const FloatingPoint is = FloatingPoint::now();
  if (!(is == floating_point_)) {
    add(text, "changed the floating-point environment: " + to_text(is), "; ");
    floating_point_.restore();
  }
  sigset_t mask{};  // what the kernel does not fill is equal
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  if (std::memcmp(&mask, &mask_, sizeof(mask)) != 0) {
    add(text, "changed the signal mask", "; ");
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  return text;
}

void add_conduct(wire::Reply& reply, const std::string& what) {
  std::string text = reply.conduct;
  add(text, what, "; ");
  std::snprintf(reply.conduct, sizeof(reply.conduct), "%s", text.c_str());
}

}  // namespace mxcheck
