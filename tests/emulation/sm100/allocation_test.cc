// Columns of tensor memory: who owns them (PTX ISA 9.0, 9.7.16.7). Each rule broken is found; kept, there is nothing.

#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

TEST(Allocation, one_warp_allocates_gives_up_its_permit_and_frees) {
  expect_right(kTwoWarps, [] { close(open({})); });
}

TEST(Allocation, counts_are_powers_of_two_from_32_to_512) {
  for (const unsigned columns : {0U, 16U, 48U, 96U, 1024U}) {
    const std::string what = std::to_string(columns) + " columns";
    expect_fault(kOneWarp, Hazard::allocation,
                 {"warp 0 lane 0 (alloc)", "tcgen05.alloc.cta_group::1", what, "a power of two from 32 to 512"},
                 [columns] {
                   role("alloc");
                   emulation::sm100::tmem_alloc(1, shared_base(), columns);
                 });
  }
}
TEST(Allocation, a_count_that_grows_is_found_freed_or_not) {
  const auto kernel = [](bool grows) {
    role("alloc");
    tmem_alloc<1, 64>(shared_base());
    const TmemAddress first = slot_after_sync();
    tmem_dealloc<1, 64>(first);
    grows ? tmem_alloc<1, 128>(shared_base() + 4) : tmem_alloc<1, 32>(shared_base() + 4);
    tmem_relinquish<1>();
    const TmemAddress second = slot_after_sync(4);
    grows ? tmem_dealloc<1, 128>(second) : tmem_dealloc<1, 32>(second);
  };
  expect_right(kOneWarp, with(kernel, false));
  expect_fault(kOneWarp, Hazard::allocation,
               {"warp 0 lane 0 (alloc)", "tcgen05.alloc", "128 columns after 64", "no more columns than"},
               with(kernel, true));
}
TEST(Allocation, none_after_the_permit_was_given_up) {
  expect_fault(kOneWarp, Hazard::allocation,
               {"warp 0 lane 0 (alloc)", "tcgen05.alloc", "after tcgen05.relinquish_alloc_permit", "no alloc by a CTA"},
               [] {
                 role("alloc");
                 tmem_alloc<1, 32>(shared_base());
                 tmem_relinquish<1>();
                 tmem_alloc<1, 32>(shared_base() + 4);
               });
}
TEST(Allocation, the_permit_is_given_up_before_the_end) {
  expect_fault(kOneWarp, Hazard::exit, {"cta 0 warp 0", "the permit to allocate", "tcgen05.relinquish_alloc_permit"},
               [] {
                 tmem_alloc<1, 32>(shared_base());
                 tmem_dealloc<1, 32>(slot_after_sync());
               });
}
TEST(Allocation, everything_is_freed_before_the_end) {
  expect_fault(kTwoWarps, Hazard::exit, {"cta 0 warp", "the end", "columns 0 to 64 are still allocated", "dealloc"},
               [] { open({}); });
}
TEST(Allocation, what_is_freed_is_an_allocation_with_its_width) {
  for (const TmemAddress wrong : {TmemAddress{32}, TmemAddress{1U << 16}, TmemAddress{448}}) {
    const std::string what = "columns " + std::to_string(wrong) + " to " + std::to_string(wrong + 64);
    expect_fault(kOneWarp, Hazard::allocation,
                 {"warp 0 lane 0", "tcgen05.dealloc.cta_group::1", what, "the address and width of an alloc"}, [wrong] {
                   open({});
                   tmem_dealloc<1, kColumns>(wrong);
                 });
  }
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.dealloc", "columns 0 to 32 are no allocation"},
               [] { tmem_dealloc<1, 32>(open({})); });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.dealloc", "columns 0 to 64 are no allocation"}, [] {
    const TmemAddress tmem = open({});
    tmem_dealloc<1, kColumns>(tmem);
    tmem_dealloc<1, kColumns>(tmem);
  });
}

TEST(Allocation, an_alloc_waits_until_columns_are_free) {
  const Kernel kernel = [] {
    const bool first = warp_index() == 0;
    if (first) tmem_alloc<1, 512>(shared_base());
    sync_block();
    if (first) {
      tmem_dealloc<1, 512>(load_shared<std::uint32_t>(shared_base()));
    } else {
      tmem_alloc<1, 256>(shared_base() + 4);
      sync_warp();
      tmem_dealloc<1, 256>(load_shared<std::uint32_t>(shared_base() + 4));
      tmem_relinquish<1>();
    }
  };
  expect_right(kTwoWarps, kernel);
  const LaunchResult r = launch(kOneWarp, {}, [] {
    tmem_alloc<1, 512>(shared_base());
    tmem_alloc<1, 512>(shared_base() + 4);
  });
  EXPECT_FALSE(r.completed);
  ASSERT_EQ(r.findings.size(), 1U);
  EXPECT_EQ(r.findings[0].hazard, Hazard::deadlock);
  EXPECT_NE(r.dump.find("tcgen05.alloc.cta_group::1, waits for tensor memory: 512 columns"), std::string::npos)
      << r.dump;
}

// A weak store of the address: its readers need a barrier (9.7.16.7.1).
TEST(Allocation, the_address_is_read_after_a_barrier) {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const LaunchResult r = launch(kTwoWarps, {.schedule = Schedule::random, .seed = seed}, [] {
      if (warp_index() == 0) {
        tmem_alloc<1, 32>(shared_base());
        tmem_relinquish<1>();
      } else {
        role("read");
        load_shared<std::uint32_t>(shared_base());
      }
      sync_block();
      if (warp_index() == 0) tmem_dealloc<1, 32>(load_shared<std::uint32_t>(shared_base()));
    });
    ASSERT_FALSE(r.findings.empty());
    const Hazard h = r.findings[0].hazard;
    ASSERT_TRUE(h == Hazard::not_ordered || h == Hazard::uninitialized) << text_of(r);
    if (h == Hazard::not_ordered) ++found;
  }
  EXPECT_GT(found, 0U);
}
TEST(Allocation, the_slot_is_a_word_of_the_own_cta) {
  expect_fault(kOneWarp, Hazard::address, {"warp 0", "tcgen05.alloc", "byte 1026 of cta 0", "a multiple of 4"},
               [] { tmem_alloc<1, 32>(shared_base() + 2); });
  expect_fault({.blocks = 2, .threads = 32, .cluster = 2, .shared_bytes = 64}, Hazard::address,
               {"cta 0 warp 0", "tcgen05.alloc", "of cta 1", "in its own CTA"}, [] {
                 cluster_sync();
                 if (cluster_rank() == 0) tmem_alloc<1, 32>(map_to_rank(shared_base(), 1));
                 cluster_sync();
               });
}
TEST(Allocation, the_slot_is_no_barrier) {
  expect_fault(kOneWarp, Hazard::barrier, {"tcgen05.alloc", "hold the mbarrier at byte 1088", "mbarrier instructions"},
               [] {
                 by_elected([&] { barrier_init(barrier(0), 1); });
                 tmem_alloc<1, 32>(barrier(0));
               });
}

TEST(Allocation, a_whole_warp_allocates_and_frees_with_the_same_operands) {
  expect_fault(kOneWarp, Hazard::collective,
               {"warp 0 lane", "tcgen05.alloc", "lanes of the warp pass different operands", "all 32 lanes together"},
               [] { tmem_alloc<1, 32>(shared_base() + (lane_index() == 7 ? 4 : 0)); });
  expect_fault(kOneWarp, Hazard::collective,
               {"warp 0 lane", "tcgen05.dealloc", "other lanes of the warp are at bar.warp.sync"}, [] {
                 const TmemAddress tmem = open({});
                 if (lane_index() < 16) tmem_dealloc<1, kColumns>(tmem);
                 sync_warp();
               });
  expect_fault(kOneWarp, Hazard::deadlock, {"warp 0 lane 0", "tcgen05.dealloc", "the other lanes at tcgen05.dealloc"},
               [] {
                 const TmemAddress tmem = open({});
                 if (lane_index() < 16) tmem_dealloc<1, kColumns>(tmem);
               });
}

// --- columns
// Columns of tensor memory: used by who owns them, and freed when their uses are over (PTX ISA 9.0, 9.7.16.7).

// The last use of columns is known to be over by the warp that frees them.
TEST(Columns, columns_are_freed_when_loads_and_mmas_are_over) {
  const auto kernel = [](bool waits, bool syncs) {
    const TmemAddress tmem = open({1});
    if (warp_index() == 0) {
      role("mma");
      by_elected([&] {
        small_mma(tmem);
        commit<1>(barrier(0));
      });
    }
    if (warp_index() == 1 || waits) wait_and_fence<Scope::cta>(barrier(0), 0);
    if (warp_index() == 1) load_column(slab(tmem));
    if (syncs) return close(tmem);
    sync_block();
    if (warp_index() == 0) tmem_dealloc<1, kColumns>(tmem);
  };
  expect_right(kTwoWarps, with(kernel, true, true));
  expect_fault(kTwoWarps, Hazard::overwritten,
               {"warp 0 lane 0 (mma)", "tcgen05.dealloc", "column 0, lanes 32 to 48", "fence::after_thread_sync"},
               with(kernel, true, false));
  expect_fault(kOneWarp, Hazard::overwritten, {"(mma)", "tcgen05.dealloc", "column 0, lanes 0 to 16", "a commit"},
               with(kernel, false, false));
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
    by_elected([&] { small_mma(tmem + 56); });
  });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.cp", "the copy: column 64"}, [] {
    const TmemAddress tmem = open({});
    by_elected([&] { small_cp(tmem + 32); });
  });
  expect_fault(kOneWarp, Hazard::allocation, {"tcgen05.mma", "scales of B: column 64"}, [] {
    const TmemAddress tmem = open({});
    by_elected([&] {
      small_cp(tmem);
      mma_block_scaled<1>(tmem, matrix(kA), matrix(kB), kSmallScaled, tmem + kScaleColumn, tmem + 64, false);
    });
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
