// TMA (PTX ISA 9.0, 9.7.9.27): alignments, and accesses that nothing orders.

#include <cstring>

#include "tests/emulation/sm100/tensor.h"

namespace mxcheck::sm100::test {
namespace {

TEST(Tma, generic_stores_are_fenced_before_they_are_stored_by_tma) {
  Tensor tensor = plain();
  const TensorMap map = tensor.map();
  const auto kernel = [&map](bool fences, bool syncs) {
    if (warp_index() == 0) {
      fill(kTile, 2048, 1);
      if (fences) fence_proxy_async();
    }
    if (syncs) sync_block();
    if (warp_index() != 1 || !elect()) return;
    role("store");
    tma_store(&map, tile(), 0, 0);
    bulk_commit_group();
    bulk_wait_group<0>();
  };
  expect_right(kTileTwoWarps, with(kernel, true, true));
  expect_fault(kTileTwoWarps, Hazard::proxy,
               {"warp 1 lane 0 (store)", "cp.async.bulk.tensor.global", "the store reads byte 5120", "generic proxy",
                "fence.proxy.async by the writing thread"},
               with(kernel, false, true));
  expect_fault(kTileTwoWarps, Hazard::not_ordered, {"(store)", "nothing orders the store before"},
               with(kernel, true, false));
  expect_fault(kTileOneWarp, Hazard::uninitialized, {"the store reads byte 5120", "which nothing has written"}, [&] {
    if (!elect()) return;
    tma_store(&map, tile(), 0, 0);
    bulk_commit_group();
    bulk_wait_group<0>();
  });
}

enum class RefillLeft : std::uint8_t { nothing, full, commit, swizzle, read_fence };

// A slot filled twice by TMA, read by a cp each time.
Kernel refill(const TensorMap* map, RefillLeft left) {
  return [map, left] {
    const TmemAddress tmem = open({1, 1});
    if (elect()) {
      role("load");
      for (unsigned k = 0; k < 2; ++k) {
        barrier_arrive_expect<Scope::cta>(barrier(0), 2048);
        tma_load(tile(), map, barrier(0), 0, 0);
        if (left != RefillLeft::full) barrier_wait<Scope::cta>(barrier(0), k);
        constexpr auto kOther = k_major(Swizzle::b64);
        const auto from = left == RefillLeft::swizzle ? shared_descriptor<kOther>(tile())
                                                      : shared_descriptor<k_major(Swizzle::b128)>(tile());
        cp<CpShape::rows4x256b, 1>(tmem + 8 * k, from);
        if (left == RefillLeft::full) barrier_wait<Scope::cta>(barrier(0), k);
        commit<1>(barrier(1));
        if (left != RefillLeft::commit) barrier_wait<Scope::cta>(barrier(1), k);
      }
    }
    sync_warp();
    close_after<Scope::cta>(barrier(1), 1, tmem);
  };
}
TEST(Tma, a_slot_is_filled_again_after_the_commit) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  expect_right(kTileOneWarp, refill(&map, RefillLeft::nothing));
  expect_fault(
      kTileOneWarp, Hazard::overwritten,
      {"warp 0 lane 0 (load)", "cp.async.bulk.tensor", "byte 5120 of shared memory of cta 0 is still read", "commit"},
      refill(&map, RefillLeft::commit));
  expect_fault(
      kTileOneWarp, Hazard::not_complete,
      {"(load)", "tcgen05.cp", "the copy reads byte 5120", "not known to be complete", "the barrier of that load"},
      refill(&map, RefillLeft::full));
  expect_fault(
      kTileOneWarp, Hazard::swizzle,
      {"(load)", "tcgen05.cp", "byte 5120", "the load's swizzle is 2 and the descriptor's 4", "the same swizzle"},
      refill(&map, RefillLeft::swizzle));
}
TEST(Tma, a_slot_in_flight_is_neither_read_nor_filled) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  const auto kernel = [&map](bool twice) {
    open_barriers();
    role("load");
    if (elect()) {
      barrier_arrive_expect<Scope::cta>(barrier(0), twice ? 4096 : 2048);
      tma_load(tile(), &map, barrier(0), 0, 0);
      twice ? tma_load(tile(), &map, barrier(0), 0, 0) : void(load_shared<std::uint32_t>(tile()));
    }
    barrier_wait<Scope::cta>(barrier(0), 0);
  };
  expect_fault(kTileOneWarp, Hazard::not_complete, {"(load)", "ld.shared", "byte 5120", "a wait for its barrier"},
               with(kernel, false));
  expect_fault(kTileOneWarp, Hazard::overwritten, {"(load)", "cp.async.bulk.tensor", "byte 5120"}, with(kernel, true));
}
TEST(Tma, generic_reads_are_fenced_before_tma_fills_again) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  const auto kernel = [&map](bool fences) {
    open_barriers(1);
    role("load");
    for (unsigned k = 0; k < 2; ++k) {
      if (elect()) {
        barrier_arrive_expect<Scope::cta>(barrier(0), 2048);
        tma_load(tile(), &map, barrier(0), 0, 0);
      }
      barrier_wait<Scope::cta>(barrier(0), k);
      load_shared<std::uint32_t>(tile() + 4 * lane_index());
      if (fences) fence_proxy_async();
      sync_warp();
    }
  };
  expect_needed(kTileOneWarp, kernel, Hazard::proxy, {"(load)", "byte 5120", "fence.proxy.async after those accesses"});
}

TEST(Tma, alignments_and_boxes_that_there_are_not) {
  const Tensor tensor = plain();
  TensorMap map = tensor.map();
  const auto at = [&map](unsigned offset) {
    return [&map, offset] {
      open_barriers();
      if (elect()) tma_load(tile() + offset, &map, barrier(0), 0, 0);
    };
  };
  expect_fault(kTileOneWarp, Hazard::address, {"warp 0 lane 0", "byte 5248", "a multiple of 1024 for this swizzle"},
               at(128));
  map.swizzle = emulation::sm100::Swizzle::none;
  expect_fault(kTileOneWarp, Hazard::address, {"byte 5184", "a multiple of 128"}, at(64));
  map.swizzle = emulation::sm100::Swizzle::b64;
  expect_fault(kTileOneWarp, Hazard::swizzle, {"rows of the box of 128 bytes", "no longer than the swizzle's 64"},
               at(0));
  map.swizzle = emulation::sm100::Swizzle::b128_atom32;
  expect_fault(kTileOneWarp, Hazard::unknown, {"cp.async.bulk.tensor", "32-byte atoms"}, at(0));
  map = tensor.map();
  map.box[0] = 24;
  expect_fault(kTileOneWarp, Hazard::address, {"rows of the box of 24 bytes", "a multiple of 16"}, at(0));
  map = tensor.map();
  expect_fault(kTileOneWarp, Hazard::address, {"3 coordinates of a tensor of 2", "as many as the tensor map has"}, [&] {
    open_barriers();
    if (elect()) tma_load(tile(), &map, barrier(0), 0, 0, 0);
  });
}
TEST(Tma, a_load_is_waited_for_before_its_cta_ends) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  expect_fault_under(
      {.schedule = Schedule::lazy}, kTileOneWarp, Hazard::exit,
      {"cta 0 warp 0 lane 0", "cp.async.bulk.tensor", "arrive in cta 0, which has ended", "a wait for every"}, [&] {
        open_barriers();
        if (!elect()) return;
        barrier_arrive_expect<Scope::cta>(barrier(0), 2048);
        tma_load(tile(), &map, barrier(0), 0, 0);
      });
  expect_fault(kTileTwoWarps, Hazard::deadlock, {"mbarrier.try_wait", "the barrier at byte 1088 of cta 0, parity 0"},
               [&] {
                 open_barriers();
                 if (thread_index() == 0) barrier_arrive_expect<Scope::cta>(barrier(0), 4096);
                 if (thread_index() == 0) tma_load(tile(), &map, barrier(0), 0, 0);
                 barrier_wait<Scope::cta>(barrier(0), 0);
               });
}

// --- data
// TMA (PTX ISA 9.0, 9.7.9.27): boxes in every swizzle against loops over elements.

void load(const TensorMap* map, int rank, std::array<int, 3> at) {
  if (rank == 3) return tma_load(tile(), map, barrier(0), at[0], at[1], at[2]);
  if (rank == 2) return tma_load(tile(), map, barrier(0), at[0], at[1]);
  emulation::sm100::tma_load({.to = tile(), .map = map, .at = std::span(at).first(1), .barrier = barrier(0)});
}
void store(const TensorMap* map, int rank, std::array<int, 3> at) {
  if (rank == 3) return tma_store(map, tile(), at[0], at[1], at[2]);
  if (rank == 2) return tma_store(map, tile(), at[0], at[1]);
  emulation::sm100::tma_store(map, std::span(at).first(1), tile());
}
struct Box {
  int rank, element;
  std::array<unsigned, 3> extent, box;
  Swizzle swizzle;
  std::array<int, 3> at;
};
constexpr std::array kBoxes{Box{1, 1, {100, 1, 1}, {64, 1, 1}, Swizzle::none, {5, 0, 0}},
                            Box{1, 4, {100, 1, 1}, {64, 1, 1}, Swizzle::none, {70, 0, 0}},
                            Box{2, 1, {150, 40, 1}, {128, 20, 1}, Swizzle::b128, {3, 7, 0}},
                            Box{2, 1, {150, 40, 1}, {128, 20, 1}, Swizzle::b128, {-60, 30, 0}},
                            Box{2, 2, {150, 40, 1}, {32, 24, 1}, Swizzle::b64, {130, -5, 0}},
                            Box{2, 4, {50, 40, 1}, {8, 24, 1}, Swizzle::b32, {-3, 20, 0}},
                            Box{2, 2, {150, 40, 1}, {8, 24, 1}, Swizzle::b32, {11, 20, 0}},
                            Box{2, 1, {150, 40, 1}, {16, 16, 1}, Swizzle::none, {200, 0, 0}},
                            Box{3, 1, {70, 9, 5}, {64, 4, 4}, Swizzle::b64, {10, 7, 3}},
                            Box{3, 4, {20, 9, 5}, {32, 4, 4}, Swizzle::b128, {-7, -2, -1}},
                            Box{3, 2, {70, 9, 5}, {32, 4, 4}, Swizzle::none, {1, 2, -9}}};
std::string text(const Box& b) {
  return "rank " + std::to_string(b.rank) + ", elements of " + std::to_string(b.element) + ", box of " +
         std::to_string(b.box[0]) + ", swizzle " + std::to_string(static_cast<int>(b.swizzle));
}

TEST(TmaData, loads_are_the_boxes_elements_and_zeros_outside) {
  for (const Box& b : kBoxes) {
    SCOPED_TRACE(text(b));
    const Tensor tensor(b.rank, b.element, b.extent, b.box, b.swizzle);
    const TensorMap map = tensor.map();
    const unsigned bytes = tensor.box_bytes();
    std::vector<std::uint8_t> got(kTileBytes);
    // Rows shorter than the span lie one after another: the swizzle is of addresses.
    expect_right(
        kTileOneWarp,
        [&] {
          open_barriers();
          if (elect()) {
            barrier_arrive_expect<Scope::cta>(barrier(0), bytes);
            load(&map, b.rank, b.at);
          }
          barrier_wait<Scope::cta>(barrier(0), 0);
          for (unsigned i = 4 * lane_index(); i < bytes; i += 128) {
            const auto word = load_shared<std::uint32_t>(tile() + i);
            std::memcpy(got.data() + i, &word, 4);
          }
        },
        [&] {
          for (unsigned i = 0; i < bytes; ++i) {
            const std::int64_t from = tensor.offset(b.at, i);
            ASSERT_EQ(got[placed(b.swizzle, i)], from < 0 ? 0 : tensor.bytes[static_cast<std::size_t>(from)]) << i;
          }
        });
  }
}
TEST(TmaData, stores_write_the_boxes_elements_and_nothing_outside) {
  for (const Box& b : kBoxes) {
    SCOPED_TRACE(text(b));
    Tensor tensor(b.rank, b.element, b.extent, b.box, b.swizzle);
    const TensorMap map = tensor.map();
    const unsigned bytes = tensor.box_bytes();
    const auto value = [](unsigned i) { return static_cast<std::uint8_t>(255 - i * 11); };
    const auto before = tensor.bytes;
    expect_right(
        kTileOneWarp,
        [&] {
          for (unsigned i = 4 * lane_index(); i < bytes; i += 128) {
            std::array<std::uint8_t, 4> four{};
            for (unsigned k = 0; k < 4; ++k) four[k] = value(i + k);
            std::uint32_t word = 0;
            std::memcpy(&word, four.data(), 4);
            store_shared(tile() + i, word);
          }
          fence_proxy_async();
          sync_warp();
          if (elect()) {
            store(&map, b.rank, b.at);
            bulk_commit_group();
            bulk_wait_group<0>();
          }
        },
        [&] {
          auto right = before;
          for (unsigned i = 0; i < bytes; ++i) {
            const std::int64_t to = tensor.offset(b.at, i);
            if (to >= 0) right[static_cast<std::size_t>(to)] = value(placed(b.swizzle, i));
          }
          ASSERT_TRUE(tensor.bytes == right);
          tensor.bytes = before;
        });
  }
}

// --- multicasts
// TMA to several CTAs, and to the barriers of a pair (PTX ISA 9.0, 9.7.9.27).

// Three CTAs of a cluster of 4 get a box each, from that of rank 1.
TEST(Multicast, multicast_writes_and_counts_at_the_same_place_of_each_cta) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  std::array<std::uint32_t, 4> words{};
  std::uint32_t first = 0;
  std::memcpy(&first, tensor.bytes.data() + tensor.offset({0, 1, 0}, 0), 4);
  expect_right(
      {.blocks = 4, .threads = 32, .cluster = 4, .shared_bytes = kTile + kTileBytes},
      [&] {
        open_barriers();
        const unsigned rank = cluster_rank();
        if (rank == 2) return;  // not in the mask, and free to go
        if (elect()) {
          barrier_arrive_expect<Scope::cta>(barrier(0), 2048);
          if (rank == 1) tma_load_multicast(tile(), &map, barrier(0), 0b1011, 0, 1);
        }
        barrier_wait<Scope::cluster>(barrier(0), 0);
        words[rank] = load_shared<std::uint32_t>(tile());
      },
      [&] {
        EXPECT_EQ(words, (std::array<std::uint32_t, 4>{first, first, 0, first}));
        words = {};
      });
}
// With cta_group::2, bytes of both CTAs count at the leader's barrier.
TEST(Multicast, loads_of_a_pair_count_at_the_leaders_barrier) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  expect_right(kTilePair, [&] {
    open_barriers();
    if (elect()) {
      if (cluster_rank() == 0) barrier_arrive_expect<Scope::cta>(barrier(0), 4096);
      tma_load<2>(tile(), &map, map_to_rank(barrier(0), 0), 0, 0);
    }
    if (cluster_rank() == 0) barrier_wait<Scope::cluster>(barrier(0), 0);
    cluster_sync();
  });
  // A pair's multicast: at the CTA with the named barrier's parity.
  expect_right(kTilePair, [&] {
    open_barriers();
    if (elect() && cluster_rank() == 1) {
      barrier_arrive_expect<Scope::cta>(barrier(0), 4096);
      tma_load_multicast<2>(tile(), &map, barrier(0), 0b11, 0, 0);
    }
    if (cluster_rank() == 1) barrier_wait<Scope::cluster>(barrier(0), 0);
    cluster_sync();
  });
  for (const bool pair : {false, true}) {
    expect_fault(
        {.blocks = 4, .threads = 32, .cluster = 4, .shared_bytes = kTile + kTileBytes}, Hazard::barrier,
        {"cta 2 warp 0 lane 0 (load)", "cp.async.bulk.tensor", "the barrier is in cta 0 and the data go to cta 2",
         pair ? "in the destination CTA or the other of its pair" : "in the destination CTA"},
        [&] {
          open_barriers();
          role("load");
          if (cluster_rank() == 2 && elect()) {
            const SharedAddress there = map_to_rank(barrier(0), 0);
            pair ? tma_load<2>(tile(), &map, there, 0, 0) : tma_load(tile(), &map, there, 0, 0);
          }
          cluster_sync();
        });
  }
  expect_fault(kTileOneWarp, Hazard::issue, {"cp.async.bulk.tensor", "cta_group::2 without a pair", "an even size"},
               [&] {
                 open_barriers();
                 if (elect()) tma_load<2>(tile(), &map, barrier(0), 0, 0);
               });
}

// --- bulk copies
// Bulk copies, and the groups of stores (PTX ISA 9.0, 9.7.9.25).

TEST(Bulk, bulk_copies_go_both_ways) {
  alignas(16) std::array<std::uint32_t, 64> from{};
  alignas(16) std::array<std::uint32_t, 64> to{};
  for (unsigned i = 0; i < 64; ++i) from[i] = 7 * i + 1;
  expect_right(
      kTilePair,
      [&] {
        open_barriers();
        if (elect()) {
          barrier_arrive_expect<Scope::cta>(barrier(0), 256);
          if (cluster_rank() == 1) bulk_load_multicast(tile(), from.data(), 256, barrier(0), 0b11);
          barrier_wait<Scope::cluster>(barrier(0), 0);
          if (cluster_rank() == 0) {
            bulk_store(to.data(), tile(), 256);
            bulk_commit_group();
            bulk_wait_group<0>();
          }
        }
        cluster_sync();
      },
      [&] {
        EXPECT_EQ(to, from);
        to = {};
      });
  for (const unsigned bytes : {8U, 24U}) {
    expect_fault(kTileOneWarp, Hazard::address,
                 {"cp.async.bulk.shared::cluster.global", "to byte 5120", "multiples of 16"}, [&] {
                   open_barriers();
                   bulk_load(tile(), from.data(), bytes, barrier(0));
                 });
  }
  expect_fault(kTileOneWarp, Hazard::address, {"cp.async.bulk.global.shared::cta", "from byte 5128", "multiples of 16"},
               [&] { bulk_store(to.data(), tile() + 8, 16); });
  expect_fault(kTilePair, Hazard::address, {"cp.async.bulk.global", "a source in another CTA"}, [&] {
    cluster_sync();
    if (cluster_rank() == 0) bulk_store(to.data(), map_to_rank(tile(), 1), 16);
    cluster_sync();
  });
}

// Groups are of the thread, and in order: those that are pending may still read.
TEST(Bulk, a_source_is_written_again_when_its_group_has_read_it) {
  alignas(16) std::array<std::uint32_t, 8> to{};
  const auto kernel = [&to](bool waits, unsigned slot) {
    if (!elect()) return;
    role("write");
    for (const unsigned i : {0U, 1U}) {
      store_shared(tile() + 16 * i, Words4{{1, 2, 3, 4}});
      fence_proxy_async();
      bulk_store(to.data() + 4 * i, tile() + 16 * i, 16);
      bulk_commit_group();
    }
    if (waits) bulk_wait_group_read<1>();
    store_shared(tile() + 16 * slot, Words4{{9, 9, 9, 9}});
    bulk_wait_group<0>();
  };
  expect_right(kTileOneWarp, with(kernel, true, 0), [&] {
    EXPECT_EQ(to, (std::array<std::uint32_t, 8>{1, 2, 3, 4, 1, 2, 3, 4}));
  });
  expect_fault(kTileOneWarp, Hazard::overwritten,
               {"warp 0 lane 0 (write)", "st.shared", "byte 5136", "wait_group.read"}, with(kernel, true, 1));
  expect_fault(kTileOneWarp, Hazard::overwritten, {"(write)", "st.shared", "byte 5120", "wait_group.read"},
               with(kernel, false, 0));
  expect_fault(kTileOneWarp, Hazard::exit, {"the end", "a bulk store of cta 0 warp 0 lane 0", "wait_group.read"}, [&] {
    if (!elect()) return;
    store_shared(tile(), Words4{});
    fence_proxy_async();
    bulk_store(to.data(), tile(), 16);
  });
}

}  // namespace
}  // namespace mxcheck::sm100::test
