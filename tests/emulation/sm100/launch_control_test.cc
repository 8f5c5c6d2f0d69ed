// Cluster launch control (PTX ISA 9.0, 9.7.13.17): clusters take the work of those that have not started. All work is
// done, each piece once, whoever does it.

#include "kernels/sm100/tcgen05/cluster.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

constexpr unsigned kAnswers = 1024;

SharedAddress answer(unsigned i = 0) { return shared_base() + kAnswers + 16 * i; }

void open_answer_barriers() {
  if (thread_index() == 0) {
    for (unsigned i = 0; i < 4; ++i) barrier_init(barrier(i), i == 0 ? 1 : block_threads() * cluster_blocks());
    fence_barrier_init();
  }
  cluster_sync();
}

// Every thread of the cluster reads each grant, fences, and arrives at the asker's barrier before the slot is asked
// into again. Barrier 0 has the answer, barrier 1 the readers.
void persistent(std::vector<unsigned>& done) {
  open_answer_barriers();
  unsigned block = block_index();
  for (unsigned round = 0;; ++round) {
    role(thread_index() == 0 ? "ask" : "work");
    if (thread_index() == 0) {
      barrier_arrive_expect<Scope::cta>(barrier(0), kLaunchResponseBytes);
      ++done.at(block);
      // Every CTA has expected its bytes before the multicast: through the readers' barrier of the round before, of
      // which this arrival is one.
    }
    if (cluster_blocks() > 1) cluster_sync();
    if (thread_index() == 0 && cluster_rank() == 0) {
      if (cluster_blocks() > 1) {
        try_cancel_multicast(answer(), barrier(0));
      } else {
        try_cancel(answer(), barrier(0));
      }
    }
    barrier_wait<Scope::cluster>(barrier(0), round % 2);
    const LaunchGrant grant = query_cancel(answer());
    fence_proxy_async();
    barrier_arrive<Scope::cluster>(map_to_rank(barrier(1), 0));
    if (!grant.granted) break;
    block = grant.block + cluster_rank();
    if (thread_index() == 0 && cluster_rank() == 0) barrier_wait<Scope::cluster>(barrier(1), round % 2);
  }
  cluster_sync();
}

void all_work_is_done_once(unsigned blocks, unsigned cluster) {
  std::vector<unsigned> done(blocks);
  expect_right(
      {.blocks = blocks, .threads = 64, .cluster = cluster, .shared_bytes = kSmallBytes}, [&] { persistent(done); },
      [&] {
        EXPECT_TRUE(std::ranges::all_of(done, [](unsigned n) { return n == 1; }));
        std::ranges::fill(done, 0U);
      });
}
TEST(LaunchControl, every_cta_is_worked_on_once) { all_work_is_done_once(7, 1); }
TEST(LaunchControl, every_pair_is_worked_on_once) { all_work_is_done_once(8, 2); }
TEST(LaunchControl, every_cluster_of_four_is_worked_on_once) { all_work_is_done_once(12, 4); }

// Clusters that start late have work of their own: a random schedule leaves some.
TEST(LaunchControl, under_random_schedules_more_than_one_cluster_starts) {
  unsigned started = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    launch({.blocks = 6, .threads = 32, .shared_bytes = kSmallBytes}, {.schedule = Schedule::random, .seed = seed},
           [&] {
             if (thread_index() == 0) ++started;
             std::vector<unsigned> done(6);
             persistent(done);
           });
  }
  EXPECT_GT(started, kSeeds);
}

enum class AskingLeft : std::uint8_t { nothing, fence, arrival, wait, expect };

// One thread asks twice into one slot, in a grid of three.
Kernel ask_twice(AskingLeft left) {
  return [left] {
    open_answer_barriers();
    if (block_index() != 0) return;
    role("ask");
    for (unsigned round = 0; round < 2; ++round) {
      if (elect()) {
        if (left != AskingLeft::expect) barrier_arrive_expect<Scope::cta>(barrier(0), 16);
        if (left == AskingLeft::expect) barrier_arrive<Scope::cta>(barrier(0));
        try_cancel(answer(), barrier(0));
      }
      if (left != AskingLeft::wait) barrier_wait<Scope::cta>(barrier(0), round);
      query_cancel(answer());
      if (left == AskingLeft::wait) barrier_wait<Scope::cta>(barrier(0), round);
      if (left != AskingLeft::fence) fence_proxy_async();
      if (left != AskingLeft::arrival) sync_warp();
    }
  };
}
constexpr LaunchShape kThree{.blocks = 3, .threads = 32, .shared_bytes = kSmallBytes};

TEST(LaunchControl, a_slot_is_asked_into_again_after_its_readers_fenced_and_were_waited_for) {
  for (const Schedule schedule : {Schedule::eager, Schedule::lazy}) {
    const LaunchResult r = launch(kThree, {.schedule = schedule}, ask_twice(AskingLeft::nothing));
    EXPECT_TRUE(r.completed && r.findings.empty()) << text_of(r);
  }
  expect_fault(kThree, Hazard::proxy,
               {"cta 0 warp 0 lane 0 (ask)", "clusterlaunchcontrol.try_cancel", "byte 2048", "fence.proxy.async"},
               ask_twice(AskingLeft::fence));
  expect_fault(kThree, Hazard::overwritten,
               {"cta 0 warp 0 lane 0 (ask)", "clusterlaunchcontrol.try_cancel", "byte 2048", "is still read"},
               ask_twice(AskingLeft::arrival));
}
TEST(LaunchControl, an_answer_is_waited_for) {
  expect_fault(kThree, Hazard::not_complete, {"(ask)", "ld.shared", "byte 2048", "a wait for its barrier"},
               ask_twice(AskingLeft::wait));
}
TEST(LaunchControl, the_barrier_expects_16_bytes) {
  expect_fault_under({.schedule = Schedule::lazy}, kThree, Hazard::not_complete,
                     {"(ask)", "ld.shared", "byte 2048", "a wait for its barrier"}, ask_twice(AskingLeft::expect));
}

TEST(LaunchControl, no_request_after_one_that_was_seen_to_fail) {
  expect_fault(kOneWarp, Hazard::launch,
               {"cta 0 warp 0 lane 0 (ask)", "clusterlaunchcontrol.try_cancel", "another request after one that failed",
                "no request once is_canceled has been false"},
               [] {
                 open_answer_barriers();
                 role("ask");
                 for (unsigned round = 0; round < 2; ++round) {
                   if (elect()) {
                     barrier_arrive_expect<Scope::cta>(barrier(0), 16);
                     try_cancel(answer(), barrier(0));
                   }
                   barrier_wait<Scope::cta>(barrier(0), round);
                   query_cancel(answer());
                   fence_proxy_async();
                   sync_warp();
                 }
               });
}
TEST(LaunchControl, a_request_that_failed_has_no_first_cta) {
  expect_fault(kOneWarp, Hazard::launch, {"warp 0 lane 0", "get_first_ctaid", "is_canceled is asked first"}, [] {
    emulation::sm100::first_block({0, 0});
  });
}
TEST(LaunchControl, the_answers_place_and_barrier) {
  expect_fault(kOneWarp, Hazard::address, {"try_cancel", "the response at byte 2056", "a multiple of 16"}, [] {
    open_answer_barriers();
    if (elect()) try_cancel(answer() + 8, barrier(0));
  });
  expect_fault(kOneWarp, Hazard::barrier, {"try_cancel", "byte 2080 of cta 0, which is not initialized"}, [] {
    open_answer_barriers();
    if (elect()) try_cancel(answer(), answer(2));
  });
  expect_fault(kOneWarp, Hazard::barrier, {"try_cancel", "not visible to the async proxy", "fence.mbarrier_init"}, [] {
    if (!elect()) return;
    barrier_init(barrier(0), 1);
    try_cancel(answer(), barrier(0));
  });
}
TEST(LaunchControl, a_multicast_needs_every_cta_of_the_cluster) {
  expect_fault(kPair, Hazard::exit, {"cta 0 warp 0 lane 0", "try_cancel", "shared memory of cta 1, which has ended"},
               [] {
                 open_answer_barriers();
                 if (cluster_rank() == 1) return;
                 cluster_sync();
                 if (elect()) try_cancel_multicast(answer(), barrier(0));
               });
  expect_fault_under({.schedule = Schedule::lazy}, kPair, Hazard::exit,
                     {"cta 0 warp 0 lane 0", "try_cancel", "the answer arrives in cta 1, which has ended"}, [] {
                       open_answer_barriers();
                       if (cluster_rank() == 0 && elect()) try_cancel_multicast(answer(), barrier(0));
                       cluster_sync();
                     });
}

}  // namespace
}  // namespace mxcheck::sm100::test
