#include "properties/core/phases.h"

#include <ctime>

namespace mxcheck {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

PhaseClock*& clock_of_thread() {
  static thread_local PhaseClock* clock = nullptr;
  return clock;
}

}  // namespace

PhaseTimes::Seconds PhaseTimes::sum() const {
  Seconds all;
  for (const Seconds& one : seconds_) all.wall += one.wall, all.cpu += one.cpu;
  return all;
}

void PhaseTimes::add(Phase phase, Seconds seconds) {
  Seconds& of_phase = seconds_[static_cast<std::size_t>(phase)];
  of_phase.wall += seconds.wall, of_phase.cpu += seconds.cpu;
}

void PhaseTimes::add(const PhaseTimes& others) {
  for (std::size_t i = 0; i < seconds_.size(); ++i) add(static_cast<Phase>(i), others.seconds_[i]);
}

PhaseClock::PhaseClock(Phase first)
    : phase_(first), wall_(seconds_of(CLOCK_MONOTONIC)), cpu_(seconds_of(CLOCK_THREAD_CPUTIME_ID)) {
  clock_of_thread() = this;
}

PhaseClock::~PhaseClock() { clock_of_thread() = nullptr; }

PhaseClock* PhaseClock::of_this_thread() { return clock_of_thread(); }

const PhaseTimes& PhaseClock::times() {
  charge();
  return times_;
}

Phase PhaseClock::enter(Phase phase) {
  const Phase before = phase_;
  if (phase != before && before != Phase::shrinking) leave_for(phase);
  return before;
}

void PhaseClock::leave_for(Phase phase) {
  if (phase == phase_) return;
  charge();
  phase_ = phase;
}

void PhaseClock::charge() {
  const double wall = seconds_of(CLOCK_MONOTONIC);
  const double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  times_.add(phase_, {wall - wall_, cpu - cpu_});
  wall_ = wall, cpu_ = cpu;
}

}  // namespace mxcheck
