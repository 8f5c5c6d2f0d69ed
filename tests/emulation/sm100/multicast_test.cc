// TMA to several CTAs, and to the barriers of a pair (PTX ISA 9.0, 9.7.9.27).

#include <array>
#include <cstring>

#include "tests/emulation/sm100/tensor.h"

namespace mxcheck::sm100::test {
namespace {

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

}  // namespace
}  // namespace mxcheck::sm100::test
