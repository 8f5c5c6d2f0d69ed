// Barriers of warps, CTAs and clusters, and scopes between CTAs (PTX ISA 9.0, 9.7.13).

#include "kernels/sm100/tcgen05/tma.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

// Between two CTAs both sides say .cluster (CUTLASS #3643).
Kernel between_ctas(bool releases, bool acquires) {
  return with_barriers({32}, [releases, acquires] {
    if (cluster_rank() == 1) {
      role("arrive");
      const SharedAddress there = map_to_rank(barrier(0), 0);
      releases ? barrier_arrive<Scope::cluster>(there) : barrier_arrive<Scope::cta>(there);
    } else {
      role("wait");
      acquires ? barrier_wait<Scope::cluster>(barrier(0), 0) : barrier_wait<Scope::cta>(barrier(0), 0);
    }
  });
}
TEST(Threads, arrivals_of_another_cta_are_at_cluster_scope) {
  expect_right(kPair, between_ctas(true, true));
  expect_fault(kPair, Hazard::barrier,
               {"cta 1 warp 0 lane", "(arrive)", "mbarrier.arrive", "of cta 0 is another CTA's, and the scope is .cta",
                ".release.cluster"},
               between_ctas(false, true));
}
TEST(Threads, another_ctas_loads_of_tensor_memory_are_acquired_at_cluster_scope_alone) {
  const auto kernel = [](bool acquires) {
    const TmemAddress tmem = open<2>({1, 64, 1});
    constexpr auto kPairHalf = instruction_descriptor<ByteInstruction{.m = 256, .n = 32, .cta_group = 2}>();
    const auto multiply = [&](unsigned i) {
      mma_f8f6f4<2>(tmem, matrix(kA), matrix(kB), kPairHalf, false);
      commit_multicast<2>(barrier(i), pair_mask(0));
    };
    const bool leads = cluster_rank() == 0 && thread_index() == 0;
    if (leads) multiply(0);
    wait_and_fence<Scope::cluster>(barrier(0), 0);
    load_column(tmem);
    fence_before_thread_sync();
    barrier_arrive<Scope::cluster>(map_to_rank(barrier(1), 0));
    if (leads) {
      role("mma");
      acquires ? wait_and_fence<Scope::cluster>(barrier(1), 0) : barrier_wait<Scope::cta>(barrier(1), 0);
      multiply(2);
    }
    close_after<Scope::cluster, 2>(barrier(2), 0, tmem);
  };
  expect_needed(kPair, kernel, Hazard::overwritten, {"cta 0 warp 0 lane 0 (mma)", "tcgen05.mma", "lane 0 of cta 1"});
}

TEST(Threads, named_barriers_are_of_whole_warps_in_the_same_number) {
  for (const auto& [id, threads] : {std::pair{16U, 32U}, {1U, 33U}, {1U, 96U}, {1U, 0U}}) {
    expect_fault(kTwoWarps, Hazard::collective, {"warp 0 lane 0", "bar.sync", "of whole warps of the CTA"},
                 [i = id, n = threads] { sync_named(i, n); });
  }
  expect_fault(kTwoWarps, Hazard::collective,
               {"warp 1 lane", "bar.sync 1, 32", "barrier 1 with 64 threads", "the same"},
               [] { sync_named(1, warp_index() == 0 ? 64 : 32); });
}
// Warp 1 takes part in two rounds of one barrier, each with another warp. A lane of warp 0 that goes on late must not
// take what the second round hands over.
TEST(Threads, rounds_of_a_named_barrier_do_not_mix) {
  const auto kernel = [](unsigned reads) {
    const SharedAddress words = shared_base() + 128 * warp_index();
    if (warp_index() == 1) store_shared(words + 4 * lane_index(), 1U);
    if (warp_index() < 2) sync_named(1, 64);
    if (warp_index() == 0 && lane_index() == reads) load_shared<std::uint32_t>(words + 128);
    if (warp_index() == 0 && lane_index() == 31 - reads) load_shared<std::uint32_t>(words + 256);
    if (warp_index() > 0) sync_named(2, 64);
    if (warp_index() == 2) store_shared(words + 4 * lane_index(), 1U);
    if (warp_index() > 0) sync_named(1, 64);
  };
  constexpr LaunchShape kThreeWarps{.threads = 96, .shared_bytes = kSmallBytes};
  for (const LaunchOptions& options : all_schedules()) {
    const LaunchResult r = launch(kThreeWarps, options, with(kernel, static_cast<unsigned>(options.seed)));
    ASSERT_FALSE(r.findings.empty()) << name_of(options);
    EXPECT_NE(r.findings[0].what.find("byte 1280"), std::string::npos) << text_of(r);
  }
}
TEST(Threads, cluster_barriers_alternate_arrivals_and_waits) {
  expect_fault(kOneWarp, Hazard::collective, {"warp 0 lane 0", "barrier.cluster.wait", "without an arrival"},
               [] { cluster_wait(); });
  expect_fault(kOneWarp, Hazard::collective, {"barrier.cluster.wait", "without an arrival"}, [] {
    cluster_sync();
    cluster_wait();
  });
  expect_fault(kPair, Hazard::collective, {"barrier.cluster.arrive", "a second arrival before barrier.cluster.wait"},
               [] {
                 cluster_arrive();
                 cluster_arrive();
               });
}
// Threads that have ended are not waited for; one that arrived before it ended does not stand for another.
TEST(Threads, a_cluster_barrier_is_of_the_threads_that_run) {
  expect_right(kTwoWarps, [] {
    const SharedAddress word = shared_base() + 4 * lane_index();
    if (warp_index() == 0) return cluster_arrive();
    store_shared(word, 1U);
    cluster_sync();
    load_shared<std::uint32_t>(word ^ 4U);
  });
}

TEST(Threads, setmaxnreg_is_of_whole_warpgroups) {
  constexpr LaunchShape kGroups{.threads = 256, .shared_bytes = 64};
  expect_right(kGroups, [] {
    if (warp_index() < 4) return set_max_registers<40, false>();
    set_max_registers<232, true>();
  });
  expect_fault(kGroups, Hazard::collective,
               {"cta 0 warp 3 lane 0", "has not executed the setmaxnreg", "all four warps"}, [] {
                 if (warp_index() < 3) set_max_registers<40, false>();
               });
  expect_fault(kGroups, Hazard::collective, {"setmaxnreg.inc 20", "20 registers", "24 to 256, a multiple of 8"},
               [] { emulation::sm100::set_registers(20, true); });
}

// --- reach in a cluster
// Accesses to another CTA of the cluster: which are allowed, and when they are seen (PTX ISA 9.0, 9.7.9.22, 9.7.13.15).

SharedAddress slot() { return shared_base(); }

// A barrier of the peer is reached before anything says that the peer has begun.
TEST(ClusterReach, a_cta_that_may_not_have_begun_is_found) {
  const auto kernel = [](bool meets) {
    init_barriers({1});
    sync_warp();
    if (meets) cluster_sync();
    if (cluster_rank() == 1 && elect()) barrier_arrive<Scope::cluster>(map_to_rank(barrier(0), 0));
    if (cluster_rank() == 0) barrier_wait<Scope::cluster>(barrier(0), 0);
    cluster_sync();
  };
  expect_needed(kPair, kernel, Hazard::collective,
                {"cta 1 warp 0 lane 0", "nothing says that cta 0 has begun", "a barrier of the cluster"});
}

// The peer's arrival comes before rank 0 ends, by luck: nothing makes rank 0 wait for it.
TEST(ClusterReach, a_cta_that_may_end_before_an_arrival_at_its_barrier_is_found) {
  const auto kernel = [](bool meets) {
    init_barriers({2});
    sync_warp();
    cluster_sync();
    if (cluster_rank() == 1 && elect()) barrier_arrive<Scope::cluster>(map_to_rank(barrier(0), 0));
    if (meets) cluster_sync();
    if (!meets && cluster_rank() == 0) {
      for (int i = 0; i < 10; ++i) sync_block();  // time enough
    }
  };
  expect_right(kPair, with(kernel, true));
  expect_fault_under({.schedule = Schedule::random, .seed = 3}, kPair, Hazard::exit, {"cta 0"}, with(kernel, false));
}

TEST(ClusterReach, an_allocation_of_a_pair_before_the_peer_has_begun_is_found) {
  expect_fault(kPair, Hazard::collective, {"tcgen05.alloc.cta_group::2", "has begun"}, [] {
    init_barriers({1});
    sync_warp();
    tmem_alloc<2, 32>(slot());
    tmem_relinquish<2>();
    cluster_sync();
    tmem_dealloc<2, 32>(load_shared<std::uint32_t>(slot()));
    cluster_sync();
  });
}

// The address of an allocation is what the slot says: another CTA of the SM may have the first columns.
TEST(ClusterReach, allocations_begin_anywhere_under_random_schedules) {
  bool elsewhere = false;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const LaunchResult r =
        launch({.threads = 32, .shared_bytes = kSmallBytes}, {.schedule = Schedule::random, .seed = seed}, [&] {
          tmem_alloc<1, 64>(slot());
          tmem_relinquish<1>();
          sync_warp();
          const auto address = load_shared<std::uint32_t>(slot());
          elsewhere = elsewhere || address != 0;
          tmem_dealloc<1, 64>(address);
        });
    EXPECT_TRUE(r.completed && r.findings.empty()) << text_of(r);
  }
  EXPECT_TRUE(elsewhere);
}

}  // namespace
}  // namespace mxcheck::sm100::test
