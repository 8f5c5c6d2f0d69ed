// Tensor memory from the thread that writes it to the one that multiplies (PTX ISA 9.0, 9.7.16.6): copies, stores, and
// the threads in between.

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

// Scales copied by warp 1, multiplied by warp 0: fences order, and need no commit (9.7.16.6.2).
Kernel cp_then_mma(Left left) {
  return [left] {
    const TmemAddress tmem = open({1, 1, 1});
    if (warp_index() == 1) {
      role("copy");
      if (elect()) {
        small_cp(tmem);
        if (left != Left::before) fence_before_thread_sync();
        barrier_arrive<Scope::cta>(barrier(0));
        commit<1>(barrier(2));  // for the dealloc: the other thread's commit does not track this copy
      }
      sync_warp();
    } else {
      role("mma");
      if (elect()) {
        barrier_wait<Scope::cta>(barrier(0), 0);
        if (left != Left::after) fence_after_thread_sync();
        small_scaled_mma(tmem);
        commit<1>(barrier(1));
      }
      sync_warp();
    }
    barrier_wait<Scope::cta>(barrier(1), 0);
    barrier_wait<Scope::cta>(barrier(2), 0);
    fence_after_thread_sync();
    if (left == Left::nothing && warp_index() == 0) {
      EXPECT_EQ(load_column(slab(tmem, 15)), kSum32);
    }
    close(tmem);
  };
}

TEST(HandOver, a_copy_by_another_thread_is_ordered_by_both_fences) {
  expect_right(kTwoWarps, cp_then_mma(Left::nothing));
}
TEST(HandOver, a_copy_by_another_thread_without_its_fence_is_found) {
  expect_fault(
      kTwoWarps, Hazard::not_ordered,
      {"warp 0 lane 0 (mma)", "tcgen05.mma", "scales of A: column 32, lane 0", "fence::before_thread_sync there"},
      cp_then_mma(Left::before));
}
TEST(HandOver, a_copy_by_another_thread_without_the_fence_here_is_found) {
  expect_fault(kTwoWarps, Hazard::not_ordered,
               {"(mma)", "tcgen05.mma", "scales of A: column 32, lane 0", "fence::after_thread_sync here"},
               cp_then_mma(Left::after));
}

// Scales stored by tcgen05.st of all four warps, multiplied by warp 0.
Kernel st_then_mma(Left left) {
  return [left] {
    const TmemAddress tmem = open({128, 1});
    const Fragment<8> words{{kScales, kScales, kScales, kScales, kScales, kScales, kScales, kScales}};
    tmem_st<TmemShape::lanes32x32b, 8>(slab(tmem, kScaleColumn), words);
    if (left != Left::wait) tmem_wait_st();
    if (left != Left::before) fence_before_thread_sync();
    barrier_arrive<Scope::cta>(barrier(0));
    if (warp_index() == 1) {
      role("mma");
      if (elect()) {
        barrier_wait<Scope::cta>(barrier(0), 0);
        fence_after_thread_sync();
        small_scaled_mma(tmem);
        commit<1>(barrier(1));
      }
      sync_warp();
    }
    barrier_wait<Scope::cta>(barrier(1), 0);
    fence_after_thread_sync();
    if (left == Left::nothing) {
      EXPECT_EQ(load_column(slab(tmem, 7)), kSum32);
    }
    if (left == Left::wait) tmem_wait_st();
    close(tmem);
  };
}

TEST(HandOver, an_mma_after_stores_that_were_waited_for_is_right) {
  expect_right(kFourWarps, st_then_mma(Left::nothing));
}
TEST(HandOver, an_mma_after_stores_without_wait_st_is_found) {
  expect_fault(kFourWarps, Hazard::not_ordered, {"warp 1 lane 0 (mma)", "tcgen05.mma", "column 32, lane 0"},
               st_then_mma(Left::wait));
}
TEST(HandOver, an_mma_after_stores_without_the_fence_is_found) {
  expect_fault(kFourWarps, Hazard::not_ordered, {"(mma)", "column 32, lane 0", "fence::before_thread_sync"},
               st_then_mma(Left::before));
}

// A thread that only passes an arrival on needs no fence of tcgen05: causality is transitive.
TEST(HandOver, an_elected_lane_waits_for_its_warp) {
  expect_right(kTwoWarps, [] {
    const TmemAddress tmem = open({1});
    if (warp_index() == 1) {
      if (elect()) {
        small_mma(tmem);
        commit<1>(barrier(0));
      }
      sync_warp();
    } else {
      if (elect()) barrier_wait<Scope::cta>(barrier(0), 0);
      sync_warp();
      fence_after_thread_sync();
      EXPECT_EQ(load_column(slab(tmem)), kSum32);
    }
    barrier_wait<Scope::cta>(barrier(0), 0);
    close(tmem);
  });
}
// A commit contains fence::before_thread_sync (9.7.16.10.10), for later arrivals too.
TEST(HandOver, an_arrival_after_a_commit_publishes_what_was_before_it) {
  const auto kernel = [](bool commits) {
    return [commits] {
      const TmemAddress tmem = open({1, 1, 1});
      if (warp_index() == 1) {
        if (elect()) {
          small_cp(tmem);
          if (commits) commit<1>(barrier(2));
          barrier_arrive<Scope::cta>(barrier(0));
        }
        sync_warp();
      } else if (elect()) {
        role("mma");
        barrier_wait<Scope::cta>(barrier(0), 0);
        fence_after_thread_sync();
        small_scaled_mma(tmem);
        commit<1>(barrier(1));
      }
      barrier_wait<Scope::cta>(barrier(1), 0);
      if (commits) barrier_wait<Scope::cta>(barrier(2), 0);
      fence_after_thread_sync();
      close(tmem);
    };
  };
  expect_right(kTwoWarps, kernel(true));
  expect_fault_under({}, kTwoWarps, Hazard::not_ordered, {"(mma)", "scales of A"}, kernel(false));
}

}  // namespace
}  // namespace mxcheck::sm100::test
