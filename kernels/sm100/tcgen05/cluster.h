#pragma once
// The CTAs of a cluster: ranks, addresses of the others' shared memory, the cluster's barrier, masks of multicasts.
//
// A pair is two CTAs whose ranks differ in the last bit; the even one leads (PTX ISA, "CTA pair"). Addresses of its
// peer come from mapa alone: code that clears bit 24 of an address relies on an encoding that the PTX ISA does not
// give, and that the emulation does not have.

#include <cstdint>

#include "kernels/sm100/tcgen05/shared.h"

namespace mxcheck::sm100 {

MXCHECK_SM100_DEVICE unsigned cluster_rank() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::cluster_rank();
#else
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#endif
}
MXCHECK_SM100_DEVICE unsigned cluster_blocks() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::cluster_blocks();
#else
  std::uint32_t blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
#endif
}
MXCHECK_SM100_ANYWHERE constexpr unsigned pair_leader(unsigned rank) { return rank & ~1u; }

// The same place in the shared memory of the CTA `rank`: an address of shared::cluster.
MXCHECK_SM100_DEVICE SharedAddress map_to_rank(SharedAddress address, unsigned rank) {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::map_shared_rank(address, rank);
#else
  SharedAddress mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
#endif
}

// Every thread of every CTA arrives once, then waits once. Not .aligned: roles of one warp's threads may have diverged
// before.
MXCHECK_SM100_DEVICE void cluster_arrive() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::cluster_arrive();
#elif MXCHECK_SM100_ON_SM90
  emulation::sm100::cluster_arrive();  // the hardware's would wait for the threads that stand for the tensor core
#else
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
MXCHECK_SM100_DEVICE void cluster_wait() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::cluster_wait();
#elif MXCHECK_SM100_ON_SM90
  emulation::sm100::cluster_wait();
#else
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
MXCHECK_SM100_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// A multicast's mask has a bit for each rank: `count` of them from `first` on.
MXCHECK_SM100_ANYWHERE constexpr std::uint16_t multicast_mask(unsigned first, unsigned count) {
  return static_cast<std::uint16_t>(((1u << count) - 1u) << first);
}
// Both CTAs of the pair that `rank` is in. A constant 0b11 would be the first pair of a larger cluster.
MXCHECK_SM100_ANYWHERE constexpr std::uint16_t pair_mask(unsigned rank) { return multicast_mask(pair_leader(rank), 2); }

}  // namespace mxcheck::sm100
