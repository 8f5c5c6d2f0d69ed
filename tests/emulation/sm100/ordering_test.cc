// Accumulators between the thread that multiplies and those that read (PTX ISA 9.0, 9.7.16.6): each edge left out is
// found, and with it there is nothing to find.

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

// Warp 1 multiplies, warp 0 reads its lanes.
Kernel mma_then_ld(Left left) {
  return [left] {
    const TmemAddress tmem = open({1});
    if (warp_index() == 1) {
      role("mma");
      if (elect()) {
        small_mma(tmem);
        commit<1>(barrier(0));
      }
      sync_warp();
    } else {
      role("read");
      if (left != Left::wait) barrier_wait<Scope::cta>(barrier(0), 0);
      if (left != Left::after) fence_after_thread_sync();
      const std::uint32_t word = load_column(slab(tmem, 3));
      if (left == Left::nothing) {
        EXPECT_EQ(word, kSum32);
      }
      if (left == Left::wait) barrier_wait<Scope::cta>(barrier(0), 0);
      fence_after_thread_sync();
    }
    close(tmem);
  };
}

TEST(Ordering, an_ld_after_the_commit_was_waited_for_and_the_fence_is_right) {
  expect_right(kTwoWarps, mma_then_ld(Left::nothing));
}
TEST(Ordering, an_ld_without_a_wait_for_the_commit_is_not_complete) {
  // In turn, warp 0 would be first, when nothing is written: these seeds have the mma before it.
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const LaunchResult r =
        emulation::sm100::launch(kTwoWarps, {.schedule = Schedule::random, .seed = seed}, mma_then_ld(Left::wait));
    ASSERT_FALSE(r.findings.empty());
    if (r.findings[0].hazard != Hazard::not_complete) continue;
    ++found;
    const std::string text = emulation::sm100::text_of(r.findings[0]);
    EXPECT_NE(text.find("warp 0 lane"), std::string::npos) << text;
    EXPECT_NE(text.find("(read), tcgen05.ld.32x32b.x1: column "), std::string::npos) << text;
    EXPECT_NE(text.find("right: a commit after it"), std::string::npos) << text;
  }
  EXPECT_GT(found, 2U);
}
TEST(Ordering, an_ld_of_the_same_warp_without_a_commit_is_not_complete) {
  expect_fault(kOneWarp, Hazard::not_complete,
               {"warp 0", "(alone)", "tcgen05.ld.32x32b.x1", "column 0, lane 0", "commit"}, [] {
                 role("alone");
                 const TmemAddress tmem = open({1});
                 if (elect()) small_mma(tmem);
                 sync_warp();
                 load_column(slab(tmem));
               });
}
TEST(Ordering, an_ld_without_fence_after_thread_sync_is_not_ordered) {
  expect_fault(
      kTwoWarps, Hazard::not_ordered,
      {"warp 0", "(read)", "tcgen05.ld.32x32b.x1", "column 3, lane 0", "fence::after_thread_sync after the wait"},
      mma_then_ld(Left::after));
}

// Warp 0 multiplies twice; warp 1 reads between.
Kernel ld_then_mma(Left left) {
  return [left] {
    const TmemAddress tmem = open({1, 32, 1});
    Fragment<1> word{};
    if (warp_index() == 0) {
      role("mma");
      if (elect()) {
        small_mma(tmem);
        commit<1>(barrier(0));
        if (left != Left::wait) barrier_wait<Scope::cta>(barrier(1), 0);
        if (left != Left::after) fence_after_thread_sync();
        small_mma(tmem);
        commit<1>(barrier(2));
      }
      sync_warp();
    } else {
      role("read");
      barrier_wait<Scope::cta>(barrier(0), 0);
      fence_after_thread_sync();
      tmem_ld<TmemShape::lanes32x32b, 1>(word, slab(tmem));
      if (left != Left::wait_ld) tmem_wait_ld(word);
      if (left != Left::before) fence_before_thread_sync();
      barrier_arrive<Scope::cta>(barrier(1));
      if (left == Left::wait_ld) tmem_wait_ld(word);
    }
    barrier_wait<Scope::cta>(barrier(2), 0);
    fence_after_thread_sync();
    close(tmem);
  };
}

TEST(Ordering, an_mma_after_the_reader_has_waited_fenced_and_arrived_is_right) {
  expect_right(kTwoWarps, ld_then_mma(Left::nothing));
}
TEST(Ordering, an_mma_over_an_ld_that_nobody_waited_for_is_found) {
  expect_fault(kTwoWarps, Hazard::overwritten, {"warp 0 lane 0 (mma)", "tcgen05.mma", "column 0, lane 32", "wait::ld"},
               ld_then_mma(Left::wait_ld));
}
TEST(Ordering, an_arrival_without_fence_before_thread_sync_releases_nothing) {
  expect_fault(kTwoWarps, Hazard::overwritten,
               {"(mma)", "tcgen05.mma", "column 0, lane 32", "fence::before_thread_sync"}, ld_then_mma(Left::before));
}
TEST(Ordering, a_wait_without_fence_after_thread_sync_takes_nothing) {
  expect_fault(kTwoWarps, Hazard::overwritten,
               {"(mma)", "tcgen05.mma", "column 0, lane 32", "fence::after_thread_sync"}, ld_then_mma(Left::after));
}

}  // namespace
}  // namespace mxcheck::sm100::test
