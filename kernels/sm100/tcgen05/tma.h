#pragma once
// TMA (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor"): each by one thread. Coordinates are elements, innermost
// first.
//
// Loads count their bytes at an mbarrier, whose phase expects them (barrier_arrive_expect). kCtaGroup is the qualifier:
//   0   absent. The barrier is in the CTA that is written to.
//   2   the barrier may be in that CTA or in its peer of the pair: both CTAs' bytes can count at the leader's.
//   1   like 0, spelled out.
// A multicast writes the same place of every CTA of the mask, and counts at the same place there; with cta_group 2 at
// that place of the CTA of the pair that has the named barrier's parity of rank.
//
// Stores read shared memory written by this thread, or by others that fenced (fence_proxy_async) and were waited for.
// Groups are of the thread that commits them: that thread waits.

#include <cstdint>

#include "kernels/sm100/tcgen05/shared.h"
#include "kernels/sm100/tcgen05/tensor_map.h"

namespace mxcheck::sm100 {

// Brings the map into the cache that TMA reads it from. A hint.
MXCHECK_SM100_DEVICE void prefetch_map([[maybe_unused]] const TensorMap* map) {
#if !MXCHECK_SM100_EMULATED
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

// --- loads of a box
// ------------------------------------------------------------------------------------------------------------

namespace tma_detail {

// The qualifier as text, which asm's constraint "C" puts into the opcode.
template <int kCtaGroup>
struct GroupText {
  static_assert(kCtaGroup >= 0 && kCtaGroup <= 2, "cta_group is 1 or 2, or absent: 0");
};
template <>
struct GroupText<0> {
  static constexpr char text[] = "";
};
#if MXCHECK_SM100_ON_SM90
template <>  // Hopper's loads have no such qualifier: of one CTA it says nothing new, and of pairs software loads
struct GroupText<1> : GroupText<0> {};
template <>
struct GroupText<2> : GroupText<0> {};
#else
template <>
struct GroupText<1> {
  static constexpr char text[] = ".cta_group::1";
};
template <>
struct GroupText<2> {
  static constexpr char text[] = ".cta_group::2";
};
#endif

#if MXCHECK_SM100_EMULATED
template <int kCtaGroup, class... Coordinates>
void load(SharedAddress to, const TensorMap* map, SharedAddress barrier, std::uint16_t mask,
          Coordinates... coordinates) {
  static_assert(kCtaGroup >= 0 && kCtaGroup <= 2, "cta_group is 1 or 2, or absent: 0");
  const std::int32_t at[] = {coordinates...};
  emulation::sm100::tma_load(
      {.to = to, .map = map, .at = at, .barrier = barrier, .cta_group = kCtaGroup, .multicast = mask});
}
#endif

}  // namespace tma_detail

template <int kCtaGroup = 0>
MXCHECK_SM100_DEVICE void tma_load(SharedAddress to, const TensorMap* map, SharedAddress barrier, int x, int y) {
#if MXCHECK_SM100_EMULATED
  tma_detail::load<kCtaGroup>(to, map, barrier, 0, x, y);
#else
  #if MXCHECK_SM100_ON_SM90
  if constexpr (kCtaGroup == 2) return emulation::sm100::tma_load_pair(to, map, map->box_bytes, barrier, x, y);
  #endif
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes%5 [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "C"(tma_detail::GroupText<kCtaGroup>::text)
      : "memory");
#endif
}
template <int kCtaGroup = 0>
MXCHECK_SM100_DEVICE void tma_load(SharedAddress to, const TensorMap* map, SharedAddress barrier, int x, int y, int z) {
#if MXCHECK_SM100_EMULATED
  tma_detail::load<kCtaGroup>(to, map, barrier, 0, x, y, z);
#else
  #if MXCHECK_SM100_ON_SM90
  if constexpr (kCtaGroup == 2) return emulation::sm100::tma_load_pair(to, map, map->box_bytes, barrier, x, y, z);
  #endif
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes%6 [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "C"(tma_detail::GroupText<kCtaGroup>::text)
      : "memory");
#endif
}
// `mask` has a bit for each rank: multicast_mask, pair_mask (cluster.h). Not 0.
template <int kCtaGroup = 0>
MXCHECK_SM100_DEVICE void tma_load_multicast(SharedAddress to, const TensorMap* map, SharedAddress barrier,
                                             std::uint16_t mask, int x, int y) {
#if MXCHECK_SM100_EMULATED
  tma_detail::load<kCtaGroup>(to, map, barrier, mask, x, y);
#else
  #if MXCHECK_SM100_ON_SM90
  if constexpr (kCtaGroup == 2)
    return emulation::sm100::tma_load_pair_multicast(to, map, map->box_bytes, barrier, x, y);
  #endif
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster%6 "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask), "C"(tma_detail::GroupText<kCtaGroup>::text)
      : "memory");
#endif
}
template <int kCtaGroup = 0>
MXCHECK_SM100_DEVICE void tma_load_multicast(SharedAddress to, const TensorMap* map, SharedAddress barrier,
                                             std::uint16_t mask, int x, int y, int z) {
#if MXCHECK_SM100_EMULATED
  tma_detail::load<kCtaGroup>(to, map, barrier, mask, x, y, z);
#else
  #if MXCHECK_SM100_ON_SM90
  if constexpr (kCtaGroup == 2)
    return emulation::sm100::tma_load_pair_multicast(to, map, map->box_bytes, barrier, x, y, z);
  #endif
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster%7 "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask), "C"(tma_detail::GroupText<kCtaGroup>::text)
      : "memory");
#endif
}

// --- loads of four rows
// --------------------------------------------------------------------------------------------------------

// Four rows of a 2-D tensor, each a box of {columns, 1} at column x: in shared memory they follow one another as four
// rows of one box do, swizzled by their addresses. The tensor map's box is of one row. A row outside of the tensor,
// negative or past its last, gives zeros. `to` is at a multiple of four spans of the swizzle, of 128 without one; the
// bytes that count are those of four boxes. PTX ISA, "tile::gather4": column, then the rows.
template <int kCtaGroup = 0>
MXCHECK_SM100_DEVICE void tma_gather4(SharedAddress to, const TensorMap* map, SharedAddress barrier, int x, int row0,
                                      int row1, int row2, int row3) {
#if MXCHECK_SM100_EMULATED
  static_assert(kCtaGroup >= 0 && kCtaGroup <= 2, "cta_group is 1 or 2, or absent: 0");
  emulation::sm100::tma_gather4(
      {.to = to, .map = map, .x = x, .rows = {row0, row1, row2, row3}, .barrier = barrier, .cta_group = kCtaGroup});
#elif MXCHECK_SM100_ON_SM90
  // Hopper's TMA has no gather4: a row at a time. A row of a swizzle's span is what is swizzled by its address anyway.
  const int rows[] = {row0, row1, row2, row3};
  MXCHECK_SM100_UNROLL
  for (unsigned i = 0; i < 4; ++i) tma_load<kCtaGroup>(to + i * map->box_bytes, map, barrier, x, rows[i]);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes%8 "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(row0), "r"(row1), "r"(row2), "r"(row3),
      "C"(tma_detail::GroupText<kCtaGroup>::text)
      : "memory");
#endif
}

// --- loads of bytes
// ------------------------------------------------------------------------------------------------------------

// Both addresses, and `bytes`, are multiples of 16.
MXCHECK_SM100_DEVICE void bulk_load(SharedAddress to, const void* from, unsigned bytes, SharedAddress barrier) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::bulk_load(to, from, bytes, barrier, 0);
#else
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
               : "memory");
#endif
}
MXCHECK_SM100_DEVICE void bulk_load_multicast(SharedAddress to, const void* from, unsigned bytes, SharedAddress barrier,
                                              std::uint16_t mask) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::bulk_load(to, from, bytes, barrier, mask);
#else
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier), "h"(mask)
      : "memory");
#endif
}

// --- stores
// --------------------------------------------------------------------------------------------------------------------

MXCHECK_SM100_DEVICE void tma_store(const TensorMap* map, SharedAddress from, int x, int y) {
#if MXCHECK_SM100_EMULATED
  const std::int32_t at[] = {x, y};
  emulation::sm100::tma_store(map, at, from);
#else
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
#endif
}
MXCHECK_SM100_DEVICE void tma_store(const TensorMap* map, SharedAddress from, int x, int y, int z) {
#if MXCHECK_SM100_EMULATED
  const std::int32_t at[] = {x, y, z};
  emulation::sm100::tma_store(map, at, from);
#else
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y), "r"(z)
               : "memory");
#endif
}
MXCHECK_SM100_DEVICE void bulk_store(void* to, SharedAddress from, unsigned bytes) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::bulk_store(to, from, bytes);
#else
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
               "r"(from), "r"(bytes)
               : "memory");
#endif
}

MXCHECK_SM100_DEVICE void bulk_commit_group() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::bulk_commit_group();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
// Until all but kPending of this thread's groups are done: what they wrote can be read.
template <unsigned kPending>
MXCHECK_SM100_DEVICE void bulk_wait_group() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::bulk_wait_group(kPending, false);
#else
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
// Until they have read their shared memory, which can be written again. Says nothing about what they write.
template <unsigned kPending>
MXCHECK_SM100_DEVICE void bulk_wait_group_read() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::bulk_wait_group(kPending, true);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace mxcheck::sm100
