// tcgen05.ld and tcgen05.st (PTX ISA 9.0, 9.7.16.8): accesses that there are not, and what a thread must wait for.

#include "tests/emulation/sm100/micro.h"
#include "tests/emulation/sm100/small_mma.h"

namespace mxcheck::sm100::test {
namespace {

// Before wait::ld registers hold nothing that can be used.
TEST(TmemAccess, lazy_loads_are_there_after_their_wait_alone) {
  bool early = false;
  const LaunchResult r = emulation::sm100::launch(kFourWarps, {.schedule = Schedule::lazy}, [&] {
    const TmemAddress tmem = open({});
    store_codes(tmem);
    Fragment<1> word;
    tmem_ld<TmemShape::lanes32x32b, 1>(word, slab(tmem, 9));
    early = early || word.r[0] == cell_code(thread_index(), 9);
    tmem_wait_ld(word);
    EXPECT_EQ(word.r[0], cell_code(thread_index(), 9));
    close(tmem);
  });
  EXPECT_TRUE(r.completed && r.findings.empty()) << text_of(r);
  EXPECT_FALSE(early);
}

TEST(TmemAccess, lazy_stores_are_there_after_their_wait_alone) {
  const LaunchResult r = emulation::sm100::launch(kFourWarps, {.schedule = Schedule::lazy}, [] {
    const TmemAddress tmem = open({});
    store_codes(tmem);
    tmem_st<TmemShape::lanes32x32b, 1>(slab(tmem, 9), {{7}});
    EXPECT_EQ(load_column(slab(tmem, 9)), cell_code(thread_index(), 9));
    tmem_wait_st();
    EXPECT_EQ(load_column(slab(tmem, 9)), 7U);
    close(tmem);
  });
  ASSERT_EQ(r.findings.size(), 1U) << text_of(r);
  EXPECT_EQ(r.findings[0].hazard, Hazard::not_ordered);
}

// A warp reaches the 32 lanes of its number mod 4 (9.7.16.2.3.1); .16 shapes begin at one of the two halves.
TEST(TmemAccess, lanes_of_another_warp_are_refused) {
  for (const unsigned lane : {0U, 16U, 64U, 33U, 48U, 96U}) {
    const std::string what = "lanes " + std::to_string(lane) + " to " + std::to_string(lane + 32);
    expect_fault(kFourWarps, Hazard::address,
                 {"warp 1 lane", "tcgen05.ld.32x32b.x1", what, "warp 1 has lanes 32 to 64"}, [lane] {
                   const TmemAddress tmem = open({});
                   role("read");
                   if (warp_index() == 1) load_column(tmem_at(tmem, lane, 0));
                 });
  }
  expect_fault(kOneWarp, Hazard::address, {"tcgen05.st.16x64b.x1", "lanes 8 to 24", "a multiple of 16"},
               [] { tmem_st<TmemShape::lanes16x64b, 1>(open({}) + (8 << 16), {}); });
}
TEST(TmemAccess, forms_that_there_are_not_are_unknown) {
  using Shape = emulation::sm100::TmemShape;
  std::uint32_t words[256] = {};
  for (const auto& [shape, num, count] : {std::tuple{Shape::lanes32x32b, 3U, 3U},
                                          {Shape::lanes32x32b, 256U, 256U},
                                          {Shape::lanes16x256b, 64U, 256U},
                                          {Shape::lanes16x128b, 2U, 2U}}) {
    expect_fault(kOneWarp, Hazard::unknown, {"warp 0 lane", "tcgen05.ld", ".x" + std::to_string(num), "a power of two"},
                 [&, s = shape, n = num, k = count] {
                   emulation::sm100::tmem_ld(s, n, false, open({}), std::span(words).first(k));
                 });
  }
  expect_fault(kOneWarp, Hazard::unknown, {"tcgen05.ld.16x32bx2.x1", "16x32bx2 with 16-bit packing"}, [&] {
    emulation::sm100::tmem_ld(Shape::lanes16x32bx2, 1, true, open({}), std::span(words).first(1), 2);
  });
}
TEST(TmemAccess, all_lanes_pass_the_same_address) {
  expect_fault(kOneWarp, Hazard::collective,
               {"warp 0 lane", "tcgen05.ld.32x32b.x1", "lanes of the warp pass different"},
               [] { load_column(open({}) + lane_index() % 2); });
  expect_fault(kOneWarp, Hazard::collective, {"tcgen05.wait::", "other lanes of the warp are at tcgen05.wait::"}, [] {
    const TmemAddress tmem = open({});
    Fragment<1> word{};
    tmem_st<TmemShape::lanes32x32b, 1>(tmem, word);
    if (lane_index() < 16) return tmem_wait_ld(word);
    tmem_wait_st();
  });
}

TEST(TmemAccess, cells_that_nothing_has_written_are_found) {
  expect_fault(
      kFourWarps, Hazard::uninitialized,
      {"warp 2 lane", "(read)", "tcgen05.ld.32x32b.x2", "column 8, lane 80 has not been written", "an mma, cp or st"},
      [] {
        const TmemAddress tmem = open({});
        role("read");
        if (warp_index() == 2) {
          // Lanes 64 to 79 alone: 80 to 95 stay as they are.
          tmem_st<TmemShape::lanes16x64b, 8>(slab(tmem), {});
          tmem_wait_st();
          Fragment<2> words;
          tmem_ld<TmemShape::lanes32x32b, 2>(words, slab(tmem, 8));
          tmem_wait_ld(words);
        }
        close(tmem);
      });
}
TEST(TmemAccess, an_ld_of_what_a_store_has_not_finished_is_found) {
  const auto kernel = [](bool waits) {
    return [waits] {
      const TmemAddress tmem = open({});
      tmem_st<TmemShape::lanes32x32b, 1>(slab(tmem, 4), {{7}});
      if (waits) tmem_wait_st();
      const std::uint32_t word = load_column(slab(tmem, 4));
      if (waits) {
        EXPECT_EQ(word, 7U);
      }
      tmem_wait_st();
      close(tmem);
    };
  };
  expect_right(kFourWarps, kernel(true));
  expect_fault(kOneWarp, Hazard::not_ordered,
               {"warp 0 lane", "tcgen05.ld.32x32b.x1", "column 4, lane 0: its writer is not ordered", "wait::st"},
               kernel(false));
}
TEST(TmemAccess, a_store_over_a_load_that_is_not_over_is_found) {
  const auto kernel = [](bool waits) {
    return [waits] {
      const TmemAddress tmem = open({});
      store_codes(tmem);
      Fragment<1> word;
      tmem_ld<TmemShape::lanes32x32b, 1>(word, slab(tmem, 4));
      if (waits) tmem_wait_ld(word);
      tmem_st<TmemShape::lanes32x32b, 1>(slab(tmem, 4), {{7}});
      if (!waits) tmem_wait_ld(word);
      tmem_wait_st();
      if (waits) {
        EXPECT_EQ(word.r[0], cell_code(thread_index(), 4));
      }
      close(tmem);
    };
  };
  expect_right(kFourWarps, kernel(true));
  expect_fault(kOneWarp, Hazard::overwritten,
               {"warp 0 lane", "tcgen05.st.32x32b.x1", "column 4, lane 0 is still read", "wait::ld"}, kernel(false));
}

}  // namespace
}  // namespace mxcheck::sm100::test
