// tcgen05.ld and tcgen05.st (PTX ISA 9.0, 9.7.16.8): accesses that there are not, and what a thread must wait for.

#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {
namespace {

// Before wait::ld registers hold nothing that can be used.
TEST(TmemAccess, lazy_loads_are_there_after_their_wait_alone) {
  bool early = false;
  const LaunchResult r = launch(kFourWarps, {.schedule = Schedule::lazy}, [&] {
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
  const LaunchResult r = launch(kFourWarps, {.schedule = Schedule::lazy}, [] {
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
  expect_right(kFourWarps, with(kernel, true));
  expect_fault(kOneWarp, Hazard::not_ordered,
               {"warp 0 lane", "tcgen05.ld.32x32b.x1", "column 4, lane 0: its writer is not ordered", "wait::st"},
               with(kernel, false));
}
TEST(TmemAccess, a_store_over_a_load_that_is_not_over_is_found) {
  const auto kernel = [](bool waits) {
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
  expect_right(kFourWarps, with(kernel, true));
  expect_fault(kOneWarp, Hazard::overwritten,
               {"warp 0 lane", "tcgen05.st.32x32b.x1", "column 4, lane 0 is still read", "wait::ld"},
               with(kernel, false));
}

// --- shapes
// tcgen05.ld and tcgen05.st (PTX ISA 9.0, 9.7.16.8): which register is which cell, in every shape. Written down by the
// owner of a cell: which thread has it, and in what register.

struct Owner {
  unsigned thread, reg;
};
// The owner of the cell at lane `l` and column `c` of the access. The figures of 9.7.16.2.3, inverted: 16-lane shapes
// are made of matrices of 8 rows, four threads to a row.
constexpr Owner owner(TmemShape shape, unsigned l, unsigned c) {
  switch (shape) {
    case TmemShape::lanes32x32b: return {l, c};
    case TmemShape::lanes16x64b: return {l % 8 * 4 + c % 2 * 2 + l / 8, c / 2};
    case TmemShape::lanes16x128b: return {l % 8 * 4 + c % 4, c / 4 * 2 + l / 8};
    case TmemShape::lanes16x256b: return {l % 8 * 4 + c % 8 / 2, c / 8 * 4 + l / 8 * 2 + c % 2};
  }
  return {};
}
constexpr unsigned width(TmemShape shape) {
  switch (shape) {
    case TmemShape::lanes32x32b: return 1;
    case TmemShape::lanes16x64b: return 2;
    case TmemShape::lanes16x128b: return 4;
    case TmemShape::lanes16x256b: return 8;
  }
  return 0;
}
template <TmemShape kShape, int kNum>
void loads_what_it_owns() {
  expect_right(kFourWarps, [] {
    constexpr unsigned kLanes = kShape == TmemShape::lanes32x32b ? 32 : 16;
    const TmemAddress tmem = open({});
    store_codes(tmem);
    const unsigned first = warp_index() * 32;
    for (unsigned lane = first; lane < first + 32; lane += kLanes) {
      TmemFragment<kShape, kNum> words;
      tmem_ld<kShape, kNum>(words, tmem_at(tmem, lane, 5));
      tmem_wait_ld(words);
      unsigned mine = 0;
      for (unsigned l = 0; l < kLanes; ++l) {
        for (unsigned c = 0; c < width(kShape) * kNum; ++c) {
          const Owner o = owner(kShape, l, c);
          if (o.thread != lane_index()) continue;
          ++mine;
          ASSERT_EQ(words.r[o.reg], cell_code(lane + l, 5 + c)) << "lane " << l << " column " << c;
        }
      }
      ASSERT_EQ(mine, kNum * static_cast<unsigned>(tmem_registers(kShape)));
    }
    close(tmem);
  });
}
TEST(TmemShapes, registers_of_32x32b) {
  loads_what_it_owns<TmemShape::lanes32x32b, 1>();
  loads_what_it_owns<TmemShape::lanes32x32b, 32>();
}
TEST(TmemShapes, registers_of_16x64b) {
  loads_what_it_owns<TmemShape::lanes16x64b, 1>();
  loads_what_it_owns<TmemShape::lanes16x64b, 16>();
}
TEST(TmemShapes, registers_of_16x128b) {
  loads_what_it_owns<TmemShape::lanes16x128b, 1>();
  loads_what_it_owns<TmemShape::lanes16x128b, 8>();
}
TEST(TmemShapes, registers_of_16x256b) {
  loads_what_it_owns<TmemShape::lanes16x256b, 1>();
  loads_what_it_owns<TmemShape::lanes16x256b, 4>();
}

template <TmemShape kShape, int kNum>
void stores_what_it_owns() {
  expect_right(kFourWarps, [] {
    constexpr unsigned kLanes = kShape == TmemShape::lanes32x32b ? 32 : 16;
    constexpr unsigned kWide = width(kShape) * kNum;
    const TmemAddress tmem = open({});
    const unsigned first = warp_index() * 32;
    for (unsigned lane = first; lane < first + 32; lane += kLanes) {
      TmemFragment<kShape, kNum> words;
      for (unsigned l = 0; l < kLanes; ++l) {
        for (unsigned c = 0; c < kWide; ++c) {
          const Owner o = owner(kShape, l, c);
          if (o.thread == lane_index()) words.r[o.reg] = cell_code(lane + l, c);
        }
      }
      tmem_st<kShape, kNum>(tmem_at(tmem, lane, 0), words);
    }
    tmem_wait_st();
    Fragment<kWide> got;
    tmem_ld<TmemShape::lanes32x32b, kWide>(got, slab(tmem));
    tmem_wait_ld(got);
    for (unsigned c = 0; c < kWide; ++c) ASSERT_EQ(got.r[c], cell_code(thread_index(), c)) << c;
    close(tmem);
  });
}
TEST(TmemShapes, stores_are_the_inverse_of_loads) {
  stores_what_it_owns<TmemShape::lanes32x32b, 4>();
  stores_what_it_owns<TmemShape::lanes16x64b, 4>();
  stores_what_it_owns<TmemShape::lanes16x128b, 2>();
  stores_what_it_owns<TmemShape::lanes16x256b, 2>();
}

// .pack::16b: a register has the low halves of two neighbouring columns; .unpack::16b puts them there.
TEST(TmemShapes, packed_halves) {
  expect_right(kFourWarps, [] {
    const TmemAddress tmem = open({});
    store_codes(tmem);
    Fragment<4> pairs;
    tmem_ld<TmemShape::lanes32x32b, 4, true>(pairs, slab(tmem, 2));
    TmemFragment<TmemShape::lanes16x256b, 1> fragment;
    tmem_ld<TmemShape::lanes16x256b, 1, true>(fragment, slab(tmem));
    tmem_wait_ld(pairs, fragment);
    for (unsigned i = 0; i < 4; ++i) ASSERT_EQ(pairs.r[i], (2 + 2 * i) | (3 + 2 * i) << 16);
    for (unsigned c = 0; c < 8; ++c) {
      const Owner o = owner(TmemShape::lanes16x256b, lane_index() / 4, c);
      if (o.thread == lane_index()) {
        ASSERT_EQ(fragment.r[o.reg], (2 * c) | (2 * c + 1) << 16);
      }
    }
    tmem_st<TmemShape::lanes32x32b, 4, true>(slab(tmem, 16), Fragment<4>{{0x20001, 0x40003, 0x60005, 0x80007}});
    tmem_wait_st();
    for (unsigned c = 0; c < 8; ++c) ASSERT_EQ(load_column(slab(tmem, 16 + c)), c + 1);
    close(tmem);
  });
}

// .16x32bx2: threads 16 to 31 have the lanes of threads 0 to 15, `split` columns further.
TEST(TmemShapes, two_halves_of_columns) {
  expect_right(kFourWarps, [] {
    constexpr unsigned kSplit = 13;
    const TmemAddress tmem = open({});
    store_codes(tmem);
    const unsigned half = lane_index() / 16;
    for (const unsigned lane : {0U, 16U}) {
      Fragment<4> words;
      tmem_ld_halves<4, kSplit>(words, slab(tmem, 2) + (lane << 16));
      tmem_wait_ld(words);
      for (unsigned r = 0; r < 4; ++r) {
        ASSERT_EQ(words.r[r], cell_code(warp_index() * 32 + lane + lane_index() % 16, 2 + r + half * kSplit));
      }
    }
    const Fragment<2> mine{{lane_index(), lane_index() + 100}};
    tmem_st_halves<2, kSplit>(slab(tmem, 40), mine);
    tmem_wait_st();
    const std::uint32_t low = load_column(slab(tmem, 41));
    const std::uint32_t high = load_column(slab(tmem, 41 + kSplit));
    if (lane_index() < 16) {
      ASSERT_EQ(low, lane_index() + 100);
      ASSERT_EQ(high, lane_index() + 116);
    }
    close(tmem);
  });
}

}  // namespace
}  // namespace mxcheck::sm100::test
