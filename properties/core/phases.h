#pragma once
// Where the time of a gate's job goes: seconds of wall time and of CPU, by what its thread was doing.
//
// A thread that has a PhaseClock is in one phase at a time, so that the phases' wall seconds add up to the clock's own.
// InPhase says which, for the length of a scope; on a thread without a clock it costs a comparison.
//
//   PhaseClock clock(Phase::start_up);
//   { const InPhase in(Phase::reference); ... }
//   clock.times().wall(Phase::reference)
//
// Does not promise: the CPU of threads that a phase starts; who reports it counts that as what is left of the
// process's.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mxcheck {

enum class Phase : std::uint8_t {
  start_up,    // processes of the candidate: start, questions, end
  cases,       // drawing cases, counting what they met
  tensors,     // drawing the tensors of a case
  reference,   // the reference's answers
  calls,       // filling the shared memory, waiting for the candidate
  comparison,  // reading outputs and red zones, comparing, what else a statement's check does
  shrinking,   // after a failure: whatever is done to find the smallest case
  idle,        // waiting for other jobs
};
inline constexpr std::array<std::string_view, 8> kPhaseNames{
    "start-up", "drawing cases", "drawing tensors", "reference", "candidate calls", "comparison", "shrinking", "idle"};

class PhaseTimes {
 public:
  struct Seconds {
    double wall = 0;
    double cpu = 0;
  };
  [[nodiscard]] const Seconds& of(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  [[nodiscard]] Seconds sum() const;
  void add(Phase phase, Seconds seconds);
  void add(const PhaseTimes& others);

 private:
  std::array<Seconds, kPhaseNames.size()> seconds_{};
};

class PhaseClock {
 public:
  explicit PhaseClock(Phase first);  // this thread's, until it is destroyed
  ~PhaseClock();
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

  // Up to now.
  const PhaseTimes& times();
  // Returns the phase before. Shrinking is not left by what is done for it.
  Phase enter(Phase phase);
  void leave_for(Phase phase);
  // CPU of another process, for the phase that this thread is in.
  void add_cpu(double seconds) { times_.add(phase_, {0, seconds}); }

  static PhaseClock* of_this_thread();

 private:
  void charge();
  Phase phase_;
  double wall_;
  double cpu_;
  PhaseTimes times_;
};

class InPhase {
 public:
  explicit InPhase(Phase phase) : clock_(PhaseClock::of_this_thread()) {
    if (clock_ != nullptr) before_ = clock_->enter(phase);
  }
  ~InPhase() {
    if (clock_ != nullptr) clock_->leave_for(before_);
  }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  PhaseClock* clock_;
  Phase before_{};
};

}  // namespace mxcheck
