// Bulk copies, and the groups of stores (PTX ISA 9.0, 9.7.9.25).

#include <array>

#include "tests/emulation/sm100/tensor.h"

namespace mxcheck::sm100::test {
namespace {

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
    return [&to, waits, slot] {
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
  };
  expect_right(kTileOneWarp, kernel(true, 0), [&] {
    EXPECT_EQ(to, (std::array<std::uint32_t, 8>{1, 2, 3, 4, 1, 2, 3, 4}));
  });
  expect_fault(kTileOneWarp, Hazard::overwritten,
               {"warp 0 lane 0 (write)", "st.shared", "byte 5136", "wait_group.read"}, kernel(true, 1));
  expect_fault(kTileOneWarp, Hazard::overwritten, {"(write)", "st.shared", "byte 5120", "wait_group.read"},
               kernel(false, 0));
  expect_fault(kTileOneWarp, Hazard::exit, {"the end", "a bulk store of cta 0 warp 0 lane 0", "wait_group.read"}, [&] {
    if (!elect()) return;
    store_shared(tile(), Words4{});
    fence_proxy_async();
    bulk_store(to.data(), tile(), 16);
  });
}

}  // namespace
}  // namespace mxcheck::sm100::test
