// TMA of four rows (PTX ISA 9.0, 9.7.9.27, tile::gather4): against loops over elements, and what it asks for.

#include <cstring>

#include "tests/emulation/sm100/tensor.h"

namespace mxcheck::sm100::test {
namespace {

constexpr unsigned kRowBytes = 128;

// 40 rows of 300 bytes, boxes of one row.
Tensor rows_of(Swizzle swizzle = Swizzle::b128) { return {2, 1, {300, 40, 1}, {kRowBytes, 1, 1}, swizzle}; }

struct Gather {
  int element;
  unsigned columns;  // of the box
  Swizzle swizzle;
  unsigned offset;  // in the tile
  int x;
  std::array<int, 4> rows;
};
constexpr std::array kGathers{Gather{1, 128, Swizzle::b128, 0, 0, {3, 17, 4, 39}},
                              Gather{1, 128, Swizzle::b128, 512, 64, {9, 9, 0, 9}},  // the other half of the pattern
                              Gather{1, 128, Swizzle::b128, 1536, 250, {-1, 2, 40, 1}},
                              Gather{1, 128, Swizzle::b128, 0, -30, {-2147483647 - 1, 2147483647, 41, 0}},
                              Gather{2, 64, Swizzle::b128, 512, 100, {31, 30, 29, 28}},
                              Gather{4, 32, Swizzle::b128, 0, 70, {7, 7, 7, -4}},
                              Gather{1, 64, Swizzle::b128, 512, 5, {1, 2, 3, 5}},  // rows shorter than the span
                              Gather{2, 32, Swizzle::b64, 256, 3, {20, 10, 40, 5}},
                              Gather{4, 8, Swizzle::b32, 128, 60, {5, 38, 4, 1}},
                              Gather{1, 48, Swizzle::none, 384, 7, {12, -7, 11, 39}},
                              Gather{1, 128, Swizzle::none, 0, 400, {1, 2, 3, 4}}};

TEST(TmaGather, rows_follow_one_another_and_those_outside_are_zeros) {
  for (const Gather& g : kGathers) {
    SCOPED_TRACE("box of " + std::to_string(g.columns) + " x " + std::to_string(g.element) + " bytes, swizzle " +
                 std::to_string(static_cast<int>(g.swizzle)) + ", row " + std::to_string(g.rows[0]));
    const Tensor tensor(2, g.element, {300 / static_cast<unsigned>(g.element), 40, 1}, {g.columns, 1, 1}, g.swizzle);
    const TensorMap map = tensor.map();
    const unsigned row = tensor.box_bytes();
    const unsigned end = g.offset + 4 * row;
    std::vector<std::uint8_t> got(kTileBytes);
    expect_right(
        kTileOneWarp,
        [&] {
          open_barriers();
          if (elect()) {
            barrier_arrive_expect<Scope::cta>(barrier(0), 4 * row);
            tma_gather4(tile() + g.offset, &map, barrier(0), g.x, g.rows[0], g.rows[1], g.rows[2], g.rows[3]);
          }
          barrier_wait<Scope::cta>(barrier(0), 0);
          for (unsigned i = g.offset + 4 * lane_index(); i < end; i += 128) {
            const auto word = load_shared<std::uint32_t>(tile() + i);
            std::memcpy(got.data() + i, &word, 4);
          }
        },
        [&] {
          for (unsigned i = 0; i < 4 * row; ++i) {
            const std::int64_t from = tensor.offset({g.x, g.rows[i / row], 0}, i % row);
            ASSERT_EQ(got[placed(g.swizzle, g.offset + i)], from < 0 ? 0 : tensor.bytes[static_cast<std::size_t>(from)])
                << i;
          }
          std::ranges::fill(got, std::uint8_t{0});
        });
  }
}

// Both halves of a pattern of eight rows, the second loaded first. Rows past the tensor's last are zeros either way.
TEST(TmaGather, two_gathers_are_a_box_of_eight_rows) {
  const Tensor tensor = rows_of();
  const Tensor box(2, 1, {300, 40, 1}, {kRowBytes, 8, 1}, Swizzle::b128);
  const TensorMap row_map = tensor.map();
  const TensorMap box_map = box.map();
  unsigned differing = 0;
  expect_right(
      kTileOneWarp,
      [&] {
        open_barriers();
        if (elect()) {
          barrier_arrive_expect<Scope::cta>(barrier(0), 16 * kRowBytes);
          tma_load(tile(), &box_map, barrier(0), 96, 35);
          tma_gather4(tile() + 1536, &row_map, barrier(0), 96, 39, 40, 41, 42);
          tma_gather4(tile() + 1024, &row_map, barrier(0), 96, 35, 36, 37, 38);
        }
        barrier_wait<Scope::cta>(barrier(0), 0);
        for (unsigned i = 4 * lane_index(); i < 8 * kRowBytes; i += 128) {
          if (load_shared<std::uint32_t>(tile() + i) != load_shared<std::uint32_t>(tile() + 1024 + i)) ++differing;
        }
      },
      [&] { EXPECT_EQ(std::exchange(differing, 0U), 0U); });
}

TEST(TmaGather, bytes_of_both_ctas_of_a_pair_count_at_the_leader) {
  const Tensor tensor = rows_of();
  const TensorMap map = tensor.map();
  std::array<std::uint32_t, 2> first{};
  const auto kernel = [&](unsigned expected) {
    open_barriers();
    const unsigned rank = cluster_rank();
    const auto row = static_cast<int>(20 * rank);
    if (elect()) {
      if (rank == 0) barrier_arrive_expect<Scope::cta>(barrier(0), expected);
      tma_gather4<2>(tile(), &map, map_to_rank(barrier(0), 0), 0, row + 1, row + 2, row + 3, row + 5);
    }
    if (rank == 0) barrier_wait<Scope::cluster>(barrier(0), 0);
    cluster_sync();
    if (elect()) first[rank] = load_shared<std::uint32_t>(tile());
    cluster_sync();
  };
  expect_right(kTilePair, with(kernel, 2 * 4 * kRowBytes), [&] {
    for (unsigned rank = 0; rank < 2; ++rank) {
      std::uint32_t word = 0;
      std::memcpy(&word, tensor.bytes.data() + tensor.offset({0, static_cast<int>(20 * rank) + 1, 0}, 0), 4);
      EXPECT_EQ(std::exchange(first[rank], 0U), word) << rank;
    }
  });
  expect_fault(kTilePair, Hazard::deadlock, {"mbarrier.try_wait", "cta 0"}, with(kernel, 2 * 4 * kRowBytes + 16));
  expect_fault(kTilePair, Hazard::barrier,
               {"cta 1 warp 0 lane 0", "cp.async.bulk.tensor.gather4",
                "the barrier is in cta 0 and the data go to cta 1", "a barrier in the destination CTA"},
               [&] {
                 open_barriers();
                 if (cluster_rank() == 1 && elect())
                   tma_gather4<1>(tile(), &map, map_to_rank(barrier(0), 0), 0, 0, 1, 2, 3);
                 cluster_sync();
               });
  expect_fault(kTileOneWarp, Hazard::issue, {"cp.async.bulk.tensor.gather4", "cta_group::2 without a pair"}, [&] {
    open_barriers();
    if (elect()) tma_gather4<2>(tile(), &map, barrier(0), 0, 0, 1, 2, 3);
  });
}

TEST(TmaGather, boxes_and_places_that_there_are_not) {
  const auto at = [](const TensorMap& map, unsigned offset) {
    return [&map, offset] {
      open_barriers();
      if (elect()) tma_gather4(tile() + offset, &map, barrier(0), 0, 0, 1, 2, 3);
    };
  };
  TensorMap map = rows_of().map();
  expect_fault(kTileOneWarp, Hazard::address, {"warp 0 lane 0", "byte 5376", "a multiple of 512 for this swizzle"},
               at(map, 256));
  map = rows_of(Swizzle::none).map();
  expect_fault(kTileOneWarp, Hazard::address, {"byte 5184", "a multiple of 128"}, at(map, 64));
  map = plain().map();
  expect_fault(
      kTileOneWarp, Hazard::descriptor,
      {"cp.async.bulk.tensor.gather4", "of 2 dimensions with boxes of 128 x 16", "two dimensions and boxes of one row"},
      at(map, 0));
  const Tensor three(3, 1, {128, 9, 5}, {128, 1, 1}, Swizzle::b128);
  map = three.map();
  expect_fault(kTileOneWarp, Hazard::descriptor, {"of 3 dimensions with boxes of 128 x 1 x 1"}, at(map, 0));
  map = rows_of().map();
  map.swizzle = emulation::sm100::Swizzle::b64;
  expect_fault(kTileOneWarp, Hazard::swizzle, {"rows of the box of 128 bytes", "no longer than the swizzle's 64"},
               at(map, 0));
  map = rows_of(Swizzle::none).map();
  expect_fault(kTileOneWarp, Hazard::address, {"cp.async.bulk.tensor.gather4", "bytes 13184 to 13696 of shared memory"},
               at(map, kTileBytes - kRowBytes));
}

// All of its 512 bytes are watched: a second load of the last 128, or a read of them, before the barrier.
TEST(TmaGather, rows_in_flight_are_neither_read_nor_filled) {
  const Tensor tensor = rows_of(Swizzle::none);
  const TensorMap map = tensor.map();
  const auto kernel = [&map](bool reads, bool waits) {
    open_barriers();
    role("load");
    if (elect()) {
      barrier_arrive_expect<Scope::cta>(barrier(0), 4 * kRowBytes);
      tma_gather4(tile(), &map, barrier(0), 0, 3, 2, 1, 0);
      if (waits) barrier_wait<Scope::cta>(barrier(0), 0);
      if (reads) {
        load_shared<std::uint32_t>(tile() + 3 * kRowBytes);
      } else {
        barrier_arrive_expect<Scope::cta>(barrier(1), 4 * kRowBytes);
        tma_gather4(tile() + 3 * kRowBytes, &map, barrier(1), 0, 4, 5, 6, 7);
        barrier_wait<Scope::cta>(barrier(1), 0);
      }
    }
    barrier_wait<Scope::cta>(barrier(0), 0);
  };
  for (const bool reads : {false, true}) expect_right(kTileOneWarp, with(kernel, reads, true));
  expect_fault(kTileOneWarp, Hazard::not_complete, {"(load)", "ld.shared", "byte 5504", "a wait for its barrier"},
               with(kernel, true, false));
  expect_fault(kTileOneWarp, Hazard::overwritten, {"(load)", "cp.async.bulk.tensor.gather4", "byte 5504"},
               with(kernel, false, false));
}

}  // namespace
}  // namespace mxcheck::sm100::test
