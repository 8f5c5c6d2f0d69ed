#include "properties/core/phases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace mxcheck {
namespace {

void sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(Phases, add_up_to_the_time_of_the_clock_and_sleeping_takes_no_cpu) {
  const auto begin = std::chrono::steady_clock::now();
  PhaseClock clock(Phase::start_up);
  {
    const InPhase cases(Phase::cases);
    sleep();
    {
      const InPhase reference(Phase::reference);
      sleep();
    }
    const InPhase again(Phase::cases);
    sleep();
  }
  const PhaseTimes times = clock.times();
  const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(times.of(Phase::cases).wall, 0.04);
  EXPECT_GE(times.of(Phase::reference).wall, 0.02);
  EXPECT_EQ(times.of(Phase::calls).wall, 0);
  EXPECT_LE(times.sum().wall, passed);
  EXPECT_GE(times.sum().wall, 0.06);
  EXPECT_LT(times.sum().cpu, times.sum().wall);
}

TEST(Phases, what_is_done_to_shrink_is_shrinking) {
  PhaseClock clock(Phase::comparison);
  {
    const InPhase shrinking(Phase::shrinking);
    const InPhase calls(Phase::calls);
    sleep();
  }
  clock.add_cpu(3);
  EXPECT_EQ(clock.times().of(Phase::calls).wall, 0);
  EXPECT_GE(clock.times().of(Phase::shrinking).wall, 0.02);
  EXPECT_GE(clock.times().of(Phase::comparison).cpu, 3);
}

TEST(Phases, a_clock_is_that_of_its_thread) {
  PhaseClock clock(Phase::start_up);
  std::thread([] {
    EXPECT_EQ(PhaseClock::of_this_thread(), nullptr);
    const InPhase nothing(Phase::calls);
  }).join();
  EXPECT_EQ(PhaseClock::of_this_thread(), &clock);
  EXPECT_EQ(clock.times().of(Phase::calls).wall, 0);
}

TEST(Phases, of_several_threads_are_added) {
  PhaseTimes one, other;
  one.add(Phase::calls, {2, 1});
  other.add(Phase::calls, {3, 2});
  other.add(Phase::reference, {1, 1});
  one.add(other);
  EXPECT_EQ(one.of(Phase::calls).wall, 5);
  EXPECT_EQ(one.of(Phase::calls).cpu, 3);
  EXPECT_EQ(one.sum().wall, 6);
}

}  // namespace
}  // namespace mxcheck
