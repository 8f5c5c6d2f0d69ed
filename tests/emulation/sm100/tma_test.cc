// TMA (PTX ISA 9.0, 9.7.9.27): alignments, and accesses that nothing orders.

#include "tests/emulation/sm100/tensor.h"

namespace mxcheck::sm100::test {
namespace {

TEST(Tma, generic_stores_are_fenced_before_they_are_stored_by_tma) {
  Tensor tensor = plain();
  const TensorMap map = tensor.map();
  const auto kernel = [&map](bool fences, bool syncs) {
    return [&map, fences, syncs] {
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
  };
  expect_right(kTileTwoWarps, kernel(true, true));
  expect_fault(kTileTwoWarps, Hazard::proxy,
               {"warp 1 lane 0 (store)", "cp.async.bulk.tensor.global", "the store reads byte 5120", "generic proxy",
                "fence.proxy.async by the writing thread"},
               kernel(false, true));
  expect_fault(kTileTwoWarps, Hazard::not_ordered, {"(store)", "nothing orders the store before"}, kernel(true, false));
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
    barrier_wait<Scope::cta>(barrier(1), 1);
    fence_after_thread_sync();
    close(tmem);
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
    return [&map, twice] {
      open_barriers();
      role("load");
      if (elect()) {
        barrier_arrive_expect<Scope::cta>(barrier(0), twice ? 4096 : 2048);
        tma_load(tile(), &map, barrier(0), 0, 0);
        twice ? tma_load(tile(), &map, barrier(0), 0, 0) : void(load_shared<std::uint32_t>(tile()));
      }
      barrier_wait<Scope::cta>(barrier(0), 0);
    };
  };
  expect_fault(kTileOneWarp, Hazard::not_complete, {"(load)", "ld.shared", "byte 5120", "a wait for its barrier"},
               kernel(false));
  expect_fault(kTileOneWarp, Hazard::overwritten, {"(load)", "cp.async.bulk.tensor", "byte 5120"}, kernel(true));
}
TEST(Tma, generic_reads_are_fenced_before_tma_fills_again) {
  const Tensor tensor = plain();
  const TensorMap map = tensor.map();
  const auto kernel = [&map](bool fences) {
    return [&map, fences] {
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
  };
  expect_right(kTileOneWarp, kernel(true));
  expect_fault(kTileOneWarp, Hazard::proxy, {"(load)", "byte 5120", "fence.proxy.async after those accesses"},
               kernel(false));
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

}  // namespace
}  // namespace mxcheck::sm100::test
