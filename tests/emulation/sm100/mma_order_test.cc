// The order of what one thread issues (PTX ISA 9.0, 9.7.16.6.2): mma and cp onto accumulators and scales.

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

// mma then mma: in order where shape, kind and D's type are the same (9.7.16.6.2).
Kernel two_mmas(bool same, bool waits) {
  return [same, waits] {
    constexpr auto kNarrow = instruction_descriptor<ByteInstruction{.m = 128, .n = 32}>();
    const TmemAddress tmem = open({1, 1});
    role("mma");
    if (elect()) {
      small_mma(tmem);
      if (waits) {
        commit<1>(barrier(1));
        barrier_wait<Scope::cta>(barrier(1), 0);
        fence_after_thread_sync();
      }
      mma_f8f6f4<1>(tmem, matrix(kA), matrix(kB), same ? kSmall : kNarrow, same);
      commit<1>(barrier(0));
    }
    sync_warp();
    barrier_wait<Scope::cta>(barrier(0), 0);
    fence_after_thread_sync();
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
    if (elect()) {
      if (warp_index() == 1) {
        barrier_wait<Scope::cta>(barrier(0), 0);
        fence_after_thread_sync();
      }
      small_mma(tmem, warp_index() == 1);
      if (warp_index() == 0) {
        if (fences) fence_before_thread_sync();
        barrier_arrive<Scope::cta>(barrier(0));
      }
      commit<1>(barrier(1 + warp_index()));
    }
    sync_warp();
    barrier_wait<Scope::cta>(barrier(1), 0);
    barrier_wait<Scope::cta>(barrier(2), 0);
    fence_after_thread_sync();
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
    if (elect()) {
      small_cp(tmem);
      small_scaled_mma(tmem);
      if (waits) {
        commit<1>(barrier(1));
        barrier_wait<Scope::cta>(barrier(1), 0);
        fence_after_thread_sync();
      }
      cp<CpShape::rows32x128b_warpx4, 1>(tmem + column, chunk(kScalesA));
      commit<1>(barrier(0));
    }
    sync_warp();
    barrier_wait<Scope::cta>(barrier(0), 0);
    fence_after_thread_sync();
    close(tmem);
  };
}

TEST(MmaOrder, a_copy_behind_a_commit_is_right_in_the_strict_mode_too) {
  for (LaunchOptions options : all_schedules()) {
    options.strict = true;
    const LaunchResult r = emulation::sm100::launch(kOneWarp, options, mma_then_cp(kScaleColumn, true));
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
    if (elect()) {
      small_cp(tmem);
      mma_block_scaled<1>(tmem + 24, matrix(kA), matrix(kB), kSmallScaled, tmem + kScaleColumn, tmem + kScaleColumn + 4,
                          false);
    }
    sync_warp();
  });
}

TEST(MmaOrder, an_accumulator_that_nothing_has_written_is_found) {
  expect_fault(kOneWarp, Hazard::uninitialized,
               {"warp 0 lane 0 (mma)", "tcgen05.mma", "D: column 0, lane 0", "enable-input-d is false"}, [] {
                 const TmemAddress tmem = open({1});
                 role("mma");
                 if (elect()) small_mma(tmem, true);
                 sync_warp();
               });
}
TEST(MmaOrder, scales_that_nothing_has_written_are_found) {
  expect_fault(kOneWarp, Hazard::uninitialized,
               {"(mma)", "scales of A: column 32, lane 0", "tcgen05.cp.32x128b.warpx4"}, [] {
                 const TmemAddress tmem = open({1});
                 role("mma");
                 if (elect()) small_scaled_mma(tmem);
                 sync_warp();
               });
}

}  // namespace
}  // namespace mxcheck::sm100::test
