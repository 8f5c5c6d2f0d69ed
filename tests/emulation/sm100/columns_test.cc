// Columns of tensor memory: used by who owns them, and freed when their uses are over (PTX ISA 9.0, 9.7.16.7).

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

// The last use of columns is known to be over by the warp that frees them.
TEST(Columns, columns_are_freed_when_loads_and_mmas_are_over) {
  const auto kernel = [](bool waits, bool syncs) {
    return [waits, syncs] {
      const TmemAddress tmem = open({1});
      if (warp_index() == 0) {
        role("mma");
        if (elect()) {
          small_mma(tmem);
          commit<1>(barrier(0));
        }
        sync_warp();
      }
      if (warp_index() == 1 || waits) {
        barrier_wait<Scope::cta>(barrier(0), 0);
        fence_after_thread_sync();
      }
      if (warp_index() == 1) load_column(slab(tmem));
      if (syncs) return close(tmem);
      sync_block();
      if (warp_index() == 0) tmem_dealloc<1, kColumns>(tmem);
    };
  };
  expect_right(kTwoWarps, kernel(true, true));
  expect_fault(kTwoWarps, Hazard::overwritten,
               {"warp 0 lane 0 (mma)", "tcgen05.dealloc", "column 0, lanes 32 to 48", "fence::after_thread_sync"},
               kernel(true, false));
  expect_fault(kOneWarp, Hazard::overwritten, {"(mma)", "tcgen05.dealloc", "column 0, lanes 0 to 16", "a commit"},
               kernel(false, false));
}

TEST(Columns, columns_that_nobody_owns_are_found) {
  expect_fault(kOneWarp, Hazard::allocation,
               {"warp 0 lane", "tcgen05.ld.32x32b.x1", "column 64", "columns that the CTA has allocated"},
               [] { load_column(open({}) + 64); });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.st.32x32b.x2", "column 64"}, [] {
    const Fragment<2> words{};
    tmem_st<TmemShape::lanes32x32b, 2>(open({}) + 63, words);
  });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.mma", "D: column 64", "columns that the CTA has allocated"}, [] {
    const TmemAddress tmem = open({});
    if (elect()) small_mma(tmem + 56);
    sync_warp();
  });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.cp", "the copy: column 64"}, [] {
    const TmemAddress tmem = open({});
    if (elect()) small_cp(tmem + 32);
    sync_warp();
  });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.mma", "scales of B: column 64"}, [] {
    const TmemAddress tmem = open({});
    if (elect()) {
      small_cp(tmem);
      mma_block_scaled<1>(tmem, matrix(kA), matrix(kB), kSmallScaled, tmem + kScaleColumn, tmem + 64, false);
    }
    sync_warp();
  });
  // Past the end, where everything is allocated (openxla #40118).
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.ld", "column 512"}, [] {
    tmem_alloc<1, 512>(shared_base());
    load_column(slot_after_sync() + 512);
  });
  // Freed.
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.ld", "column 0"}, [] {
    const TmemAddress tmem = open({});
    tmem_dealloc<1, kColumns>(tmem);
    load_column(tmem);
  });
}

}  // namespace
}  // namespace mxcheck::sm100::test
