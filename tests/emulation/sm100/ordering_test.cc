// Accumulators between the thread that multiplies and those that read (PTX ISA 9.0, 9.7.16.6): each edge left out is
// found, and with it there is nothing to find.

#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

// Warp 1 multiplies, warp 0 reads its lanes.
Kernel mma_then_ld(Left left) {
  return [left] {
    const TmemAddress tmem = open({1});
    if (warp_index() == 1) {
      role("mma");
      by_elected([&] {
        small_mma(tmem);
        commit<1>(barrier(0));
      });
    } else {
      role("read");
      if (left != Left::wait) barrier_wait<Scope::cta>(barrier(0), 0);
      if (left != Left::after) fence_after_thread_sync();
      const std::uint32_t word = load_column(slab(tmem, 3));
      if (left == Left::nothing) {
        EXPECT_EQ(word, kSum32);
      }
      if (left == Left::wait) wait_and_fence<Scope::cta>(barrier(0), 0);
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
    const LaunchResult r = launch(kTwoWarps, {.schedule = Schedule::random, .seed = seed}, mma_then_ld(Left::wait));
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
                 by_elected([&] { small_mma(tmem); });
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
      by_elected([&] {
        small_mma(tmem);
        commit<1>(barrier(0));
        if (left != Left::wait) barrier_wait<Scope::cta>(barrier(1), 0);
        if (left != Left::after) fence_after_thread_sync();
        small_mma(tmem);
        commit<1>(barrier(2));
      });
    } else {
      role("read");
      wait_and_fence<Scope::cta>(barrier(0), 0);
      tmem_ld<TmemShape::lanes32x32b, 1>(word, slab(tmem));
      if (left != Left::wait_ld) tmem_wait_ld(word);
      if (left != Left::before) fence_before_thread_sync();
      barrier_arrive<Scope::cta>(barrier(1));
      if (left == Left::wait_ld) tmem_wait_ld(word);
    }
    close_after<Scope::cta>(barrier(2), 0, tmem);
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

// --- orders of mma
// The order of what one thread issues (PTX ISA 9.0, 9.7.16.6.2): mma and cp onto accumulators and scales.

// mma then mma: in order where shape, kind and D's type are the same (9.7.16.6.2).
Kernel two_mmas(bool same, bool waits) {
  return [same, waits] {
    constexpr auto kNarrow = instruction_descriptor<ByteInstruction{.m = 128, .n = 32}>();
    const TmemAddress tmem = open({1, 1});
    role("mma");
    by_elected([&] {
      small_mma(tmem);
      if (waits) {
        commit<1>(barrier(1));
        wait_and_fence<Scope::cta>(barrier(1), 0);
      }
      mma_f8f6f4<1>(tmem, matrix(kA), matrix(kB), same ? kSmall : kNarrow, same);
      commit<1>(barrier(0));
    });
    wait_and_fence<Scope::cta>(barrier(0), 0);
    EXPECT_EQ(load_column(slab(tmem)), same ? 0x42800000U : kSum32);
    close(tmem);
  };
}

TEST(MmaOrder, mmas_of_one_shape_are_in_order) { expect_right(kOneWarp, two_mmas(true, false)); }
TEST(MmaOrder, mmas_of_two_shapes_with_a_commit_between_are_right) { expect_right(kOneWarp, two_mmas(false, true)); }
TEST(MmaOrder, mmas_of_two_shapes_are_not_in_order) {
  expect_fault(kOneWarp, Hazard::not_ordered,
               {"warp 0 lane 0 (mma)", "tcgen05.mma", "column 0, lane 0", "same shape and kind"},
               two_mmas(false, false));
}

// MMAs of two threads: fences order them, and wait for nothing.
Kernel mmas_of_two_threads(bool fences) {
  return [fences] {
    const TmemAddress tmem = open({1, 1, 1});
    role(warp_index() == 0 ? "first" : "second");
    by_elected([&] {
      if (warp_index() == 1) wait_and_fence<Scope::cta>(barrier(0), 0);
      small_mma(tmem, warp_index() == 1);
      if (warp_index() == 0) {
        if (fences) fence_before_thread_sync();
        barrier_arrive<Scope::cta>(barrier(0));
      }
      commit<1>(barrier(1 + warp_index()));
    });
    barrier_wait<Scope::cta>(barrier(1), 0);
    wait_and_fence<Scope::cta>(barrier(2), 0);
    if (fences) {
      EXPECT_EQ(load_column(slab(tmem)), 0x42800000U);
    }
    close(tmem);
  };
}
TEST(MmaOrder, mmas_of_two_threads_are_ordered_by_fences) {
  expect_right(kTwoWarps, mmas_of_two_threads(true));
  expect_fault(kTwoWarps, Hazard::overwritten,
               {"warp 1 lane 0 (second)", "tcgen05.mma", "column 0, lane 0 of cta 0: its last writer is not known",
                "a commit or the fences, and a barrier"},
               mmas_of_two_threads(false));
}
TEST(MmaOrder, operations_are_complete_before_their_cta_ends) {
  expect_fault_under({.schedule = Schedule::lazy}, kOneWarp, Hazard::exit,
                     {"cta 0 warp 0", "the end", "tcgen05.mma.cta_group::1.kind::f8f6f4 of cta 0 warp 0 lane 0",
                      "is not complete", "a wait for the last commit"},
                     [] {
                       const TmemAddress tmem = open({});
                       if (elect()) small_mma(tmem);
                     });
}
TEST(MmaOrder, a_commit_is_to_a_barrier_that_there_is) {
  expect_fault(kOneWarp, Hazard::barrier, {"warp 0 lane 0", "tcgen05.commit", "byte 1088 of cta 0, which is not init"},
               [] {
                 const TmemAddress tmem = open({});
                 if (elect()) small_mma(tmem);
                 if (elect()) commit<1>(barrier(0));
               });
}

// cp then mma is in order, mma then cp is not: onto D always, onto scales in the strict mode, as production kernels do
// that.
Kernel mma_then_cp(unsigned column, bool waits) {
  return [column, waits] {
    const TmemAddress tmem = open({1, 1});
    role("mma");
    by_elected([&] {
      small_cp(tmem);
      small_scaled_mma(tmem);
      if (waits) {
        commit<1>(barrier(1));
        wait_and_fence<Scope::cta>(barrier(1), 0);
      }
      cp<CpShape::rows32x128b_warpx4, 1>(tmem + column, chunk(kScalesA));
      commit<1>(barrier(0));
    });
    close_after<Scope::cta>(barrier(0), 0, tmem);
  };
}

TEST(MmaOrder, a_copy_behind_a_commit_is_right_in_the_strict_mode_too) {
  for (LaunchOptions options : all_schedules()) {
    options.strict = true;
    const LaunchResult r = launch(kOneWarp, options, mma_then_cp(kScaleColumn, true));
    EXPECT_TRUE(r.completed && r.findings.empty()) << name_of(options) << text_of(r);
  }
}
TEST(MmaOrder, a_copy_onto_live_scales_is_found_in_the_strict_mode_alone) {
  expect_fault(kOneWarp, Hazard::live_scales,
               {"warp 0 lane 0 (mma)", "tcgen05.cp", "column 32, lane 0 of cta 0", "a commit after that mma"},
               mma_then_cp(kScaleColumn, false), {.strict = true});
  expect_right(kOneWarp, mma_then_cp(kScaleColumn, false));
}
TEST(MmaOrder, a_copy_onto_an_accumulator_in_flight_is_found) {
  expect_right(kOneWarp, mma_then_cp(0, true));
  expect_fault(kOneWarp, Hazard::overwritten, {"(mma)", "tcgen05.cp", "column 0, lane 0 of cta 0", "a commit"},
               mma_then_cp(0, false));
}
TEST(MmaOrder, an_accumulator_over_its_own_scales_is_found) {
  expect_fault(kOneWarp, Hazard::overwritten, {"(mma)", "column 32, lane 0 of cta 0", "columns of their own"}, [] {
    const TmemAddress tmem = open({1});
    role("mma");
    by_elected([&] {
      small_cp(tmem);
      mma_block_scaled<1>(tmem + 24, matrix(kA), matrix(kB), kSmallScaled, tmem + kScaleColumn, tmem + kScaleColumn + 4,
                          false);
    });
  });
}

TEST(MmaOrder, an_accumulator_that_nothing_has_written_is_found) {
  expect_fault(kOneWarp, Hazard::uninitialized,
               {"warp 0 lane 0 (mma)", "tcgen05.mma", "D: column 0, lane 0", "enable-input-d is false"}, [] {
                 const TmemAddress tmem = open({1});
                 role("mma");
                 by_elected([&] { small_mma(tmem, true); });
               });
}
TEST(MmaOrder, scales_that_nothing_has_written_are_found) {
  expect_fault(kOneWarp, Hazard::uninitialized,
               {"(mma)", "scales of A: column 32, lane 0", "tcgen05.cp.32x128b.warpx4"}, [] {
                 const TmemAddress tmem = open({1});
                 role("mma");
                 by_elected([&] { small_scaled_mma(tmem); });
               });
}

// --- handing over
// Tensor memory from the thread that writes it to the one that multiplies (PTX ISA 9.0, 9.7.16.6): copies, stores, and
// the threads in between.

// Scales copied by warp 1, multiplied by warp 0: fences order, and need no commit (9.7.16.6.2).
Kernel cp_then_mma(Left left) {
  return [left] {
    const TmemAddress tmem = open({1, 1, 1});
    if (warp_index() == 1) {
      role("copy");
      by_elected([&] {
        small_cp(tmem);
        if (left != Left::before) fence_before_thread_sync();
        barrier_arrive<Scope::cta>(barrier(0));
        commit<1>(barrier(2));  // for the dealloc: the other thread's commit does not track this copy
      });
    } else {
      role("mma");
      by_elected([&] {
        barrier_wait<Scope::cta>(barrier(0), 0);
        if (left != Left::after) fence_after_thread_sync();
        small_scaled_mma(tmem);
        commit<1>(barrier(1));
      });
    }
    barrier_wait<Scope::cta>(barrier(1), 0);
    wait_and_fence<Scope::cta>(barrier(2), 0);
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
      by_elected([&] {
        wait_and_fence<Scope::cta>(barrier(0), 0);
        small_scaled_mma(tmem);
        commit<1>(barrier(1));
      });
    }
    wait_and_fence<Scope::cta>(barrier(1), 0);
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
      by_elected([&] {
        small_mma(tmem);
        commit<1>(barrier(0));
      });
    } else {
      by_elected([&] { barrier_wait<Scope::cta>(barrier(0), 0); });
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
    const TmemAddress tmem = open({1, 1, 1});
    if (warp_index() == 1) {
      by_elected([&] {
        small_cp(tmem);
        if (commits) commit<1>(barrier(2));
        barrier_arrive<Scope::cta>(barrier(0));
      });
    } else if (elect()) {
      role("mma");
      wait_and_fence<Scope::cta>(barrier(0), 0);
      small_scaled_mma(tmem);
      commit<1>(barrier(1));
    }
    barrier_wait<Scope::cta>(barrier(1), 0);
    if (commits) close_after<Scope::cta>(barrier(2), 0, tmem);
  };
  expect_right(kTwoWarps, with(kernel, true));
  expect_fault_under({}, kTwoWarps, Hazard::not_ordered, {"(mma)", "scales of A"}, with(kernel, false));
}

}  // namespace
}  // namespace mxcheck::sm100::test
