// Shared memory through the generic proxy: what orders the accesses of two threads, and where it begins and ends.

#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

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
