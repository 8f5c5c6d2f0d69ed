// The watchdog's finding and dump where no thread can go on.

#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

// The watchdog: every role, what it waits for, every barrier and its phase.
TEST(Watchdog, where_nothing_goes_on_all_roles_and_barriers_are_dumped) {
  for (const LaunchOptions& options : all_schedules()) {
    const LaunchResult r = emulation::sm100::launch(kTwoWarps, options, with_barriers({1, 2}, [] {
                                                      role(warp_index() == 0 ? "load" : "multiply");
                                                      if (thread_index() == 0) {
                                                        barrier_arrive<Scope::cta>(barrier(0));
                                                        barrier_wait<Scope::cta>(barrier(0), 0);
                                                        barrier_arrive_expect<Scope::cta>(barrier(0), 96);
                                                        barrier_arrive<Scope::cta>(barrier(1));
                                                      }
                                                      if (warp_index() == 1) barrier_wait<Scope::cta>(barrier(1), 0);
                                                    }));
    EXPECT_FALSE(r.completed);
    ASSERT_EQ(r.findings.size(), 1U) << text_of(r);
    EXPECT_EQ(r.findings[0].hazard, Hazard::deadlock);
    for (const char* part :
         {"cta 0 warp 0 lane 0 (load) at barrier.cluster.wait.acquire, waits for the threads of the cluster\n",
          "cta 0 warp 1 lane 0 (multiply) at mbarrier.try_wait.parity, waits for the barrier at byte 1096 of cta 0, "
          "parity 0\n",
          "cta 0 barrier at byte 1088: 1 phases complete, 0 of 1 arrivals and 96 bytes pending\n",
          "cta 0 barrier at byte 1096: 0 phases complete, 1 of 2 arrivals and 0 bytes pending\n"}) {
      EXPECT_NE(r.dump.find(part), std::string::npos) << part << r.dump;
    }
  }
}
TEST(Watchdog, a_loop_that_never_ends_is_dumped_too) {
  const LaunchResult r = emulation::sm100::launch(kOneWarp, {.max_steps = 1000}, [] {
    role("poll");
    for (;;) sync_warp();
  });
  EXPECT_FALSE(r.completed);
  ASSERT_EQ(r.findings.size(), 1U);
  EXPECT_EQ(r.findings[0].hazard, Hazard::deadlock);
  EXPECT_NE(r.findings[0].what.find("1001 instructions in one cluster"), std::string::npos);
  EXPECT_NE(r.dump.find("(poll) at bar.warp.sync"), std::string::npos) << r.dump;
}

}  // namespace
}  // namespace mxcheck::sm100::test
