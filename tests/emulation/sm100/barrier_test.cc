// mbarriers (PTX ISA 9.0, 9.7.13.15): their initialization, counts, phases and bytes; and shared memory through the
// generic proxy: what orders the accesses of two threads, and where it begins and ends.

#include <array>

#include "kernels/sm100/tcgen05/tma.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

alignas(16) constexpr std::array<std::uint32_t, 4> kZeros{};

TEST(Barrier, counts_and_places) {
  for (const unsigned count : {0U, 1U << 20}) {
    expect_fault(kOneWarp, Hazard::barrier, {"warp 0 lane 0", "mbarrier.init", "a count of", "1 to 2^20 - 1"},
                 [count] { barrier_init(barrier(0), count); });
  }
  expect_fault(kOneWarp, Hazard::barrier, {"mbarrier.init", "the barrier at byte 1092 of cta 0", "a multiple of 8"},
               [] { barrier_init(barrier(0) + 4, 1); });
  expect_fault(kOneWarp, Hazard::barrier,
               {"mbarrier.arrive", "byte 1088 of cta 0, which is not initialized", "mbarrier.init"},
               [] { barrier_arrive<Scope::cta>(barrier(0)); });
  expect_fault(kPair, Hazard::barrier, {"mbarrier.init", "of cta 1 is another CTA's"}, [] {
    cluster_sync();
    if (cluster_rank() == 0) barrier_init(map_to_rank(barrier(0), 1), 1);
    cluster_sync();
  });
}
TEST(Barrier, one_that_lives_is_not_initialized_again) {
  const auto kernel = [](bool invalidates) {
    if (thread_index() != 0) return;
    for (unsigned i = 0; i < 2; ++i) {
      barrier_init(barrier(0), 1);
      fence_barrier_init();
      for (unsigned k = 0; k < 3; ++k) {
        barrier_arrive<Scope::cta>(barrier(0));
        barrier_wait<Scope::cta>(barrier(0), k % 2);
      }
      if (invalidates) barrier_invalidate(barrier(0));
    }
  };
  expect_needed(kOneWarp, kernel, Hazard::barrier,
                {"mbarrier.init", "byte 1088 of cta 0 is initialized already", "mbarrier.inval"});
}
TEST(Barrier, none_is_invalidated_in_the_middle_of_a_phase) {
  expect_fault(kOneWarp, Hazard::barrier, {"mbarrier.inval", "has a phase under way", "its last phase is complete"},
               [] {
                 if (thread_index() != 0) return;
                 barrier_init(barrier(0), 2);
                 barrier_arrive<Scope::cta>(barrier(0));
                 barrier_invalidate(barrier(0));
               });
  expect_fault(kTwoWarps, Hazard::barrier, {"warp 1 lane 0", "mbarrier.inval", "32 threads wait at the barrier"},
               with_barriers({1}, [] {
                 if (warp_index() == 0) return barrier_wait<Scope::cta>(barrier(0), 0);
                 if (elect()) barrier_invalidate(barrier(0));
               }));
}
TEST(Barrier, initializations_are_ordered_before_other_threads_use_them) {
  expect_fault(kTwoWarps, Hazard::barrier,
               {"warp 1 lane 0 (late)", "mbarrier.arrive", "is initialized by another thread", "fence.mbarrier_init"},
               [] {
                 if (thread_index() == 0) barrier_init(barrier(0), 1);
                 if (thread_index() != 32) return;
                 role("late");
                 barrier_arrive<Scope::cta>(barrier(0));
               });
}
TEST(Barrier, initializations_are_fenced_before_the_async_proxy_uses_them) {
  const auto kernel = [](bool fences) {
    return with_barriers(
        {1},
        [] {
          if (elect()) bulk_load(shared_base() + 2048, kZeros.data(), 16, barrier(0));
          if (elect()) barrier_arrive_expect<Scope::cta>(barrier(0), 16);
          barrier_wait<Scope::cta>(barrier(0), 0);
        },
        fences);
  };
  expect_right(kOneWarp, kernel(true));
  expect_fault(kOneWarp, Hazard::barrier,
               {"warp 0 lane 0", "cp.async.bulk", "not visible to the async proxy", "fence.mbarrier_init"},
               kernel(false));
  expect_fault(kOneWarp, Hazard::barrier,
               {"warp 0 lane 0", "tcgen05.commit", "not visible to the async proxy", "fence.mbarrier_init"},
               with_barriers(
                   {1},
                   [] {
                     if (elect()) commit<1>(barrier(0));
                   },
                   false));
}
// fence.mbarrier_init is of initializations, and no fence.proxy.async.
TEST(Barrier, the_fence_of_initializations_fences_no_stores) {
  expect_fault(kOneWarp, Hazard::proxy, {"warp 0 lane 0", "tcgen05.mma", "A reads byte 2048", "fence.proxy.async"}, [] {
    const TmemAddress tmem = open({});
    if (elect()) {
      store_shared(shared_base() + kA, Words4{});
      barrier_init(barrier(0), 1);
      fence_barrier_init();
    }
    sync_block();
    by_elected([&] { small_mma(tmem); });
  });
}

TEST(Barrier, more_arrivals_than_its_count_are_found) {
  // The phase is open: bytes are still to come.
  expect_fault(kOneWarp, Hazard::barrier, {"warp 0 lane 0", "mbarrier.arrive", "an arrival more than the 1 of phase 0"},
               with_barriers({1}, [] {
                 if (!elect()) return;
                 barrier_arrive_expect<Scope::cta>(barrier(0), 16);
                 barrier_arrive<Scope::cta>(barrier(0));
               }));
  // 32 lanes at a barrier of one: phases that nobody sees (triton #9498).
  expect_fault(
      kOneWarp, Hazard::phase,
      {"warp 0 lane 0", "mbarrier.arrive",
       "phase 1 of the barrier at byte 1088 of cta 0 ends and nobody has waited for phase 0", "a wait for each"},
      with_barriers({1}, [] { barrier_arrive<Scope::cta>(barrier(0)); }));
}
TEST(Barrier, a_wait_that_misses_a_phase_is_found) {
  expect_fault(
      kTwoWarps, Hazard::phase,
      {"warp 1 lane 0 (slow)", "mbarrier.try_wait.parity", "phase 2 of the barrier at byte 1088", "for phase 0"},
      with_barriers({1, 1}, [] {
        if (thread_index() == 0) {
          for (unsigned k = 0; k < 3; ++k) {
            barrier_arrive<Scope::cta>(barrier(0));
            barrier_wait<Scope::cta>(barrier(0), k % 2);
            if (k == 0) barrier_wait<Scope::cta>(barrier(1), 0);
          }
        } else if (thread_index() == 32) {
          role("slow");
          barrier_wait<Scope::cta>(barrier(0), 0);
          barrier_arrive<Scope::cta>(barrier(1));
        }
        sync_block();
        if (thread_index() == 32) barrier_wait<Scope::cta>(barrier(0), 0);
      }));
}
TEST(Barrier, waits_are_at_the_own_cta_by_a_parity_of_0_or_1) {
  expect_fault(kPair, Hazard::barrier, {"mbarrier.try_wait", "of cta 1 is another CTA's", "a barrier of its own CTA"},
               with_barriers({1}, [] {
                 if (cluster_rank() == 0 && elect()) barrier_wait<Scope::cluster>(map_to_rank(barrier(0), 1), 0);
               }));
  expect_fault(kOneWarp, Hazard::barrier, {"a parity of 2", "0 or 1"},
               with_barriers({1}, [] { barrier_wait<Scope::cta>(barrier(0), 2); }));
}
TEST(Barrier, bytes_below_2_to_the_20) {
  expect_fault(kOneWarp, Hazard::transaction, {"mbarrier.arrive.expect_tx", "1048576 bytes", "below 2^20"},
               with_barriers({1}, [] { barrier_arrive_expect<Scope::cta>(barrier(0), 1U << 20); }));
  expect_fault(kOneWarp, Hazard::transaction, {"mbarrier.arrive.expect_tx", "1200000 bytes in phase 0", "2^20 - 1"},
               with_barriers({2}, [] {
                 if (lane_index() < 2) barrier_arrive_expect<Scope::cta>(barrier(0), 600'000);
               }));
}
TEST(Barrier, bytes_that_never_come_are_found_at_the_end) {
  expect_fault(kOneWarp, Hazard::transaction,
               {"warp 0", "the end", "64 bytes are outstanding on the barrier at byte 1088"}, with_barriers({1}, [] {
                 if (elect()) barrier_arrive_expect<Scope::cta>(barrier(0), 64);
               }));
}
TEST(Barrier, data_do_not_lie_over_one_that_lives) {
  expect_fault(kOneWarp, Hazard::barrier, {"st.shared", "bytes 1088 to 1096", "hold the mbarrier at byte 1088"},
               with_barriers({1}, [] {
                 if (elect()) store_shared(barrier(0), std::uint64_t{1});
               }));
  expect_fault(kOneWarp, Hazard::barrier, {"ld.shared", "hold the mbarrier at byte 1088"},
               with_barriers({1}, [] { load_shared<std::uint32_t>(barrier(0) + 4); }));
}

// Warp 0 goes on to the next phase but one while warp 1 may still wait for the first.
TEST(Barrier, a_phase_that_ends_before_all_have_seen_the_last_is_found) {
  const auto kernel = [](bool waits_for_all) {
    init_barriers({1, 1});
    sync_block();
    for (unsigned i = 0; i < 4; ++i) {
      if (thread_index() == 0) barrier_arrive<Scope::cta>(barrier(0));
      barrier_wait<Scope::cta>(barrier(0), i & 1U);
      if (waits_for_all) sync_block();
    }
  };
  const LaunchShape shape{.threads = 64, .shared_bytes = 8192};
  expect_right(shape, with(kernel, true));
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const LaunchResult r = launch(shape, {.schedule = Schedule::random, .seed = seed}, with(kernel, false));
    EXPECT_NE(text_of(r).find("have not seen the end of phase"), std::string::npos) << text_of(r);
  }
}

// --- shared memory

TEST(Shared, arrivals_hand_over_what_was_stored_before) {
  const auto kernel = [] {
    return with_barriers({32, 32}, [] {
      role(warp_index() == 0 ? "store" : "read");
      const SharedAddress word = shared_base() + 2048 + 4 * lane_index();
      for (unsigned round = 0; round < 3; ++round) {
        if (warp_index() == 0) {
          store_shared(word, 10 * round + lane_index());
          barrier_arrive<Scope::cta>(barrier(0));
          barrier_wait<Scope::cta>(barrier(1), round % 2);
        } else {
          barrier_wait<Scope::cta>(barrier(0), round % 2);
          EXPECT_EQ(load_shared<std::uint32_t>(shared_base() + 2048 + 4 * (31 - lane_index())),
                    10 * round + 31 - lane_index());
          barrier_arrive<Scope::cta>(barrier(1));
        }
      }
    });
  };
  expect_right(kTwoWarps, kernel());
}
TEST(Shared, a_read_before_the_wait_is_found) {
  expect_fault(kTwoWarps, Hazard::not_ordered,
               {"warp 1 lane 0 (read)", "ld.shared", "byte 3072 of shared memory", "a barrier between them"},
               with_barriers({32}, [] {
                 if (warp_index() == 0) {
                   store_shared(shared_base() + 2048 + 4 * lane_index(), 1U);
                   barrier_arrive<Scope::cta>(barrier(0));
                 } else {
                   role("read");
                   load_shared<std::uint32_t>(shared_base() + 2048);
                   barrier_wait<Scope::cta>(barrier(0), 0);
                 }
               }));
}
TEST(Shared, a_write_over_what_others_may_still_read_is_found) {
  // The one reader that does not arrive is among 31 that do.
  const auto kernel = [](bool all) {
    return with_barriers({32}, [all] {
      const SharedAddress word = shared_base() + 2048;
      if (thread_index() == 0) store_shared(word, 5U);
      sync_block();
      if (warp_index() == 1) {
        load_shared<std::uint32_t>(word);
        if (all || lane_index() != 9) barrier_arrive<Scope::cta>(barrier(0));
        if (!all && lane_index() == 8) barrier_arrive<Scope::cta>(barrier(0));
      } else if (elect()) {
        role("write");
        barrier_wait<Scope::cta>(barrier(0), 0);
        store_shared(word, 6U);
      }
    });
  };
  expect_right(kTwoWarps, kernel(true));
  expect_fault(kTwoWarps, Hazard::overwritten, {"warp 0 lane 0 (write)", "st.shared", "byte 3072", "an mbarrier"},
               kernel(false));
}
TEST(Shared, a_thread_may_write_what_it_has_read_itself) {
  expect_right(kOneWarp, [] {
    const SharedAddress word = shared_base() + 2048 + 4 * lane_index();
    store_shared(word, lane_index());
    sync_warp();
    store_shared(word, load_shared<std::uint32_t>(word) + 1);
    EXPECT_EQ(load_shared<std::uint32_t>(word), lane_index() + 1);
  });
}
TEST(Shared, words_that_nobody_has_written_are_found) {
  expect_fault(kOneWarp, Hazard::uninitialized, {"warp 0 lane 0", "ld.shared", "byte 3072 of shared", "a store before"},
               [] { load_shared<std::uint32_t>(shared_base() + 2048); });
}

TEST(Shared, shared_memory_ends_and_begins) {
  expect_fault(kOneWarp, Hazard::address, {"warp 0 lane 0", "st.shared", "bytes 0 to 4", "shared_base()"},
               [] { store_shared(0, 1U); });
  expect_fault(kOneWarp, Hazard::address, {"ld.shared", "of shared memory", "from 1024"},
               [] { load_shared<std::uint32_t>(shared_base() + kSmallBytes); });
  expect_fault(kOneWarp, Hazard::address, {"st.shared", "bytes 1028 to 1036", "aligned"},
               [] { store_shared(shared_base() + 4, std::uint64_t{1}); });
  expect_fault(kOneWarp, Hazard::address, {"rank 1 in a cluster of 1", "a rank of the cluster"},
               [] { store_shared((2U << 24) + 1024, 1U); });
  expect_fault(kOneWarp, Hazard::address, {"rank 1", "below 1"}, [] { map_to_rank(shared_base(), 1); });
  expect_fault(kPair, Hazard::address, {"st.shared", "of cta 1", "an address of its own CTA"}, [] {
    cluster_sync();
    if (cluster_rank() == 0) store_shared(map_to_rank(shared_base(), 1), 1U);
    cluster_sync();
  });
}

}  // namespace
}  // namespace mxcheck::sm100::test
