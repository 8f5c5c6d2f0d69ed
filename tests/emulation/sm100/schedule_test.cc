// Launches as such: the same seed is the same run, checks do not change bits, shapes that no launch has are refused,
// and what a kernel throws is a finding.

#include <array>
#include <stdexcept>

#include "kernels/sm100/tcgen05/tma.h"
#include "numerics/error.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

constexpr LaunchShape kShape{.threads = 96, .shared_bytes = kSmallBytes};
constexpr unsigned kRounds = 6;

// Warp 0 loads scales into a slot, warp 1 multiplies and adds up, warp 2 reads D after each. `wrong` leaves out the
// reader's release: which sums it reads then hangs on the schedule.
struct Loop {
  alignas(16) std::array<std::array<std::uint32_t, 128>, kRounds> scales{};
  std::array<std::uint32_t, kRounds> sums{};
  bool wrong = false;

  Loop() {
    for (unsigned k = 0; k < kRounds; ++k) scales[k].fill(0x01010101U * (125 + k));
  }
  void operator()() {
    const TmemAddress tmem = open({1, 1, 1, 1});  // full, empty, sums, read
    if (warp_index() == 0) {
      role("load");
      by_elected([&] {
        for (unsigned k = 0; k < kRounds; ++k) {
          barrier_wait<Scope::cta>(barrier(1), k % 2 ^ 1);
          barrier_arrive_expect<Scope::cta>(barrier(0), 512);
          // The first time over what warp 0 itself has stored and fenced.
          bulk_load(shared_base() + kScalesA, scales[k].data(), 512, barrier(0));
        }
      });
    } else if (warp_index() == 1) {
      role("mma");
      by_elected([&] {
        for (unsigned k = 0; k < kRounds; ++k) {
          if (!wrong) barrier_wait<Scope::cta>(barrier(3), k % 2 ^ 1);
          wait_and_fence<Scope::cta>(barrier(0), k % 2);
          small_cp(tmem);
          small_scaled_mma(tmem, k > 0);
          commit<1>(barrier(1));
          commit<1>(barrier(2));
          if (wrong) barrier_wait<Scope::cta>(barrier(2), k % 2);
        }
      });
    } else {
      role("read");
      for (unsigned k = 0; k < kRounds; ++k) {
        wait_and_fence<Scope::cta>(barrier(2), k % 2);
        const std::uint32_t sum = load_column(slab(tmem, 1));
        if (thread_index() == 64) sums[k] = sum;
        fence_before_thread_sync();
        sync_warp();
        if (elect() && !wrong) barrier_arrive<Scope::cta>(barrier(3));
        sync_warp();
      }
    }
    close_after<Scope::cta>(barrier(1), (kRounds - 1) % 2, tmem);
  }
};

struct Outcome {
  std::string findings;
  std::uint64_t mmas, switches;
  std::array<std::uint32_t, kRounds> sums;
  bool completed;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
Outcome run(bool wrong, const LaunchOptions& options) {
  Loop loop;
  loop.wrong = wrong;
  const LaunchResult r = launch(kShape, options, [&] { loop(); });
  return {text_of(r), r.mmas, r.switches, loop.sums, r.completed};
}

TEST(Schedule, a_right_kernel_has_the_same_bits_under_each) {
  // 32 * 2^(scale - 127), added up: 8, 24, 56, 120, 248, 504.
  const std::array<std::uint32_t, kRounds> right{0x41000000, 0x41C00000, 0x42600000,
                                                 0x42F00000, 0x43780000, 0x43FC0000};
  for (const LaunchOptions& options : all_schedules()) {
    const Outcome r = run(false, options);
    EXPECT_TRUE(r.completed && r.findings.empty()) << name_of(options) << r.findings;
    EXPECT_EQ(r.sums, right) << name_of(options);
    EXPECT_EQ(r.mmas, kRounds);
  }
}
TEST(Schedule, the_same_seed_is_the_same_run) {
  std::vector<std::uint64_t> switches;
  for (const bool wrong : {false, true}) {
    for (const LaunchOptions& options : all_schedules()) {
      const Outcome first = run(wrong, options);
      EXPECT_EQ(first, run(wrong, options)) << name_of(options);
      if (options.schedule == Schedule::random) switches.push_back(first.switches);
    }
  }
  std::ranges::sort(switches);
  EXPECT_GT(std::unique(switches.begin(), switches.end()) - switches.begin(), 10) << "other seeds are other runs";
}
TEST(Schedule, a_race_is_found_and_seen_in_bits_under_some) {
  std::size_t found = 0, wrong = 0;
  const Outcome right = run(false, {});
  for (const LaunchOptions& options : all_schedules()) {
    const Outcome r = run(true, options);
    found += r.findings.empty() ? 0 : 1;
    wrong += r.sums == right.sums ? 0 : 1;
  }
  EXPECT_EQ(found, kSeeds + 2);
  EXPECT_GT(wrong, 0U);
}
// The checks change no bits of a kernel that has findings either.
TEST(Schedule, checks_change_no_bits) {
  for (const bool wrong : {false, true}) {
    for (LaunchOptions options : all_schedules()) {
      const Outcome with = run(wrong, options);
      options.checks = false;
      const Outcome without = run(wrong, options);
      EXPECT_EQ(with.sums, without.sums) << name_of(options);
      EXPECT_EQ(with.switches, without.switches) << name_of(options);
      EXPECT_EQ(with.mmas, without.mmas);
      EXPECT_EQ(with.completed, without.completed);
      if (without.completed) {
        EXPECT_EQ(without.findings, "");
      }
    }
  }
}
TEST(Schedule, what_ends_a_run_is_said_without_checks_too) {
  const LaunchResult r = launch({.threads = 32}, {.checks = false}, [] {
    role("wait");
    barrier_wait<Scope::cta>(shared_base(), 0);
  });
  EXPECT_FALSE(r.completed);
  ASSERT_EQ(r.findings.size(), 1U);
  EXPECT_FALSE(r.dump.empty());
}

TEST(Schedule, shapes_that_no_launch_has_are_refused) {
  const auto refused = [](const LaunchShape& shape) -> std::string {
    try {
      launch(shape, {}, [] { FAIL() << "nothing runs"; });
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  };
  for (const unsigned threads : {0U, 16U, 33U, 1056U}) {
    EXPECT_NE(refused({.threads = threads}).find(std::to_string(threads) + " threads a CTA"), std::string::npos);
  }
  EXPECT_NE(refused({.blocks = 3, .cluster = 2}).find("3 CTAs in clusters of 2"), std::string::npos);
  EXPECT_NE(refused({.blocks = 17, .cluster = 17}).find("clusters of 1 to 16"), std::string::npos);
  EXPECT_NE(refused({.blocks = 1, .cluster = 0}).find("clusters of 0"), std::string::npos);
  EXPECT_NE(refused({.blocks = 0}).find("0 CTAs"), std::string::npos);
  EXPECT_NE(refused({.shared_bytes = 232'449}).find("232448 is the limit"), std::string::npos);
  EXPECT_TRUE(launch({.threads = 1024, .shared_bytes = 232'448}, {}, [] {}).completed);
}
TEST(Schedule, what_a_kernel_throws_is_a_finding) {
  for (const LaunchOptions& options : all_schedules()) {
    const LaunchResult r = launch({.blocks = 2, .threads = 64}, options, [] {
      role("throw");
      sync_block();
      if (thread_index() == 40) throw std::runtime_error("a table that is too short");
      sync_block();
    });
    EXPECT_FALSE(r.completed);
    ASSERT_EQ(r.findings.size(), 1U);
    EXPECT_EQ(r.findings[0].hazard, Hazard::unknown);
    EXPECT_EQ(r.findings[0].who, "cta 0 warp 1 lane 8 (throw)");
    EXPECT_EQ(r.findings[0].what, "a table that is too short");
  }
}
// One finding for what a role does at an instruction again and again, with how often.
TEST(Schedule, findings_are_counted) {
  const LaunchResult r = launch({.threads = 64, .shared_bytes = 64}, {}, [] {
    role(warp_index() == 0 ? "one" : "two");
    for (int i = 0; i < 3; ++i) load_shared<std::uint32_t>(shared_base());
  });
  ASSERT_EQ(r.findings.size(), 2U);
  EXPECT_EQ(r.findings[0].times, 96U);
  EXPECT_NE(text_of(r).find("(two), ld.shared: byte 1024 of shared memory has not been written; right: a store before "
                            "(96 times)"),
            std::string::npos)
      << text_of(r);
}

// --- the watchdog
// The watchdog's finding and dump where no thread can go on.

// The watchdog: every role, what it waits for, every barrier and its phase.
TEST(Watchdog, where_nothing_goes_on_all_roles_and_barriers_are_dumped) {
  for (const LaunchOptions& options : all_schedules()) {
    const LaunchResult r = launch(kTwoWarps, options, with_barriers({1, 2}, [] {
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
  const LaunchResult r = launch(kOneWarp, {.max_steps = 1000}, [] {
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
