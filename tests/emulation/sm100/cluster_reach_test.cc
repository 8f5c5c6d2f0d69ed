// Accesses to another CTA of the cluster: which are allowed, and when they are seen (PTX ISA 9.0, 9.7.9.22, 9.7.13.15).

#include "kernels/sm100/tcgen05/tma.h"
#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

SharedAddress slot() { return shared_base(); }

// A barrier of the peer is reached before anything says that the peer has begun.
TEST(ClusterReach, a_cta_that_may_not_have_begun_is_found) {
  const auto kernel = [](bool meets) {
    return [meets] {
      if (thread_index() == 0) {
        barrier_init(barrier(0), 1);
        fence_barrier_init();
      }
      sync_warp();
      if (meets) cluster_sync();
      if (cluster_rank() == 1 && elect()) barrier_arrive<Scope::cluster>(map_to_rank(barrier(0), 0));
      if (cluster_rank() == 0) barrier_wait<Scope::cluster>(barrier(0), 0);
      cluster_sync();
    };
  };
  expect_right(kPair, kernel(true));
  expect_fault(kPair, Hazard::collective,
               {"cta 1 warp 0 lane 0", "nothing says that cta 0 has begun", "a barrier of the cluster"}, kernel(false));
}

// The peer's arrival comes before rank 0 ends, by luck: nothing makes rank 0 wait for it.
TEST(ClusterReach, a_cta_that_may_end_before_an_arrival_at_its_barrier_is_found) {
  const auto kernel = [](bool meets) {
    return [meets] {
      if (thread_index() == 0) {
        barrier_init(barrier(0), 2);
        fence_barrier_init();
      }
      sync_warp();
      cluster_sync();
      if (cluster_rank() == 1 && elect()) barrier_arrive<Scope::cluster>(map_to_rank(barrier(0), 0));
      if (meets) cluster_sync();
      if (!meets && cluster_rank() == 0) {
        for (int i = 0; i < 10; ++i) sync_block();  // time enough
      }
    };
  };
  expect_right(kPair, kernel(true));
  expect_fault_under({.schedule = Schedule::random, .seed = 3}, kPair, Hazard::exit, {"cta 0"}, kernel(false));
}

TEST(ClusterReach, an_allocation_of_a_pair_before_the_peer_has_begun_is_found) {
  expect_fault(kPair, Hazard::collective, {"tcgen05.alloc.cta_group::2", "has begun"}, [] {
    if (thread_index() == 0) {
      barrier_init(barrier(0), 1);
      fence_barrier_init();
    }
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
    const LaunchResult r = emulation::sm100::launch({.threads = 32, .shared_bytes = kSmallBytes},
                                                    {.schedule = Schedule::random, .seed = seed}, [&] {
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
