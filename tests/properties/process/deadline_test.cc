#include "properties/process/deadline.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <memory>
#include <vector>

namespace mxcheck {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLimit{400};

// A process that computes or sleeps until it is ended.
class Other {
 public:
  explicit Other(bool sleeps, bool on_one_processor = false) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t all, one;
    if (on_one_processor && sched_getaffinity(0, sizeof(all), &all) == 0) {
      int first = 0;
      while (!CPU_ISSET(first, &all)) ++first;
      CPU_ZERO(&one);
      CPU_SET(first, &one);
      sched_setaffinity(0, sizeof(one), &one);
    }
    for (;;) {
      if (sleeps) pause();
      asm volatile("" : : : "memory");  // a loop that does nothing may be left out
    }
  }
  ~Other() { kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::chrono::nanoseconds ran() const {
    clockid_t clock{};
    timespec used{};
    clock_getcpuclockid(pid_, &clock);
    clock_gettime(clock, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }

 private:
  pid_t pid_;
};

// Looks as the gate does, to the end.
Clock::duration time_to_the_end(pid_t process) {
  const Clock::time_point begin = Clock::now();
  Deadline deadline(process, kLimit);
  while (deadline.left().count() > 0) usleep(20'000);
  return Clock::now() - begin;
}

TEST(Deadline, of_a_process_that_sleeps_is_the_limit) {
  const Other process(true);
  const Clock::duration took = time_to_the_end(process.pid());
  EXPECT_GE(took, kLimit);
  EXPECT_LT(took, 10 * kLimit);
}

TEST(Deadline, of_a_process_that_has_ended_is_the_limit) {
  const pid_t process = fork();
  if (process == 0) _exit(0);
  waitpid(process, nullptr, 0);
  EXPECT_LT(time_to_the_end(process), 10 * kLimit);
}

TEST(Deadline, waits_while_others_have_the_processor) {
  std::vector<std::unique_ptr<Other>> others;
  for (int i = 0; i < 5; ++i) others.push_back(std::make_unique<Other>(false, true));
  const Other process(false, true);
  const Clock::duration took = time_to_the_end(process.pid());
  EXPECT_GT(took, 2 * kLimit) << "six processes of one processor";
  EXPECT_GT(process.ran(), kLimit * 7 / 10);
  EXPECT_LT(took, 25 * kLimit);
}

TEST(Deadline, ends_at_a_multiple_of_the_limit_in_any_case) {
  std::vector<std::unique_ptr<Other>> others;
  for (int i = 0; i < 40; ++i) others.push_back(std::make_unique<Other>(false, true));
  const Other process(false, true);
  const Clock::duration took = time_to_the_end(process.pid());
  EXPECT_GT(took, Deadline::kMostTimes / 2 * kLimit);
  EXPECT_LT(took, 2 * Deadline::kMostTimes * kLimit);
}

}  // namespace
}  // namespace mxcheck
