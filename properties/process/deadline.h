#pragma once
// The time limit of a candidate's process: the time in which it could run. Where other processes have the processors,
// the limit waits for them, since the library is not at fault; a library that sleeps or waits for a lock has no such
// excuse.
//
//   Deadline deadline(pid, std::chrono::seconds(20));
//   while (deadline.left().count() > 0) ...   // poll() for a tenth of a second
//
// Each look takes the time since the last one: where a thread of the process is runnable, the part of that time for
// which the process had no processor is added to the limit. Not promised: seconds to the last tenth. After kMostTimes
// the limit nothing is added.

#include <sys/types.h>

#include <chrono>

namespace mxcheck {

class Deadline {
 public:
  static constexpr int kMostTimes = 20;
  Deadline(pid_t process, std::chrono::milliseconds limit);
  // Zero or less: over. Looks at the process, though at most twenty times a second.
  [[nodiscard]] std::chrono::milliseconds left();

 private:
  using Clock = std::chrono::steady_clock;
  pid_t process_;
  Clock::time_point seen_ = Clock::now();
  std::chrono::nanoseconds used_at_look_;
  Clock::time_point end_;
  Clock::time_point last_end_;
};

}  // namespace mxcheck
