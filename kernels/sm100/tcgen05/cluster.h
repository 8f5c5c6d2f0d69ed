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

// --- launch control
//
// Cluster launch control (PTX ISA, "clusterlaunchcontrol"): a running cluster asks for the place of one that has not
// started.
//
// The answer is 16 bytes of shared memory at a multiple of 16, written by the async proxy, which completes 16 bytes at
// the barrier (its phase expects them). Undefined, and so the caller's part: to ask again after a refusal was seen, and
// to multicast when a CTA of the cluster has exited. Before the slot is asked into again, its readers
// fence_proxy_async() and arrive.

inline constexpr unsigned kLaunchResponseBytes = 16;

// By one thread. `response` and `barrier` are the own CTA's.
MXCHECK_SM100_DEVICE void try_cancel(SharedAddress response, SharedAddress barrier) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::try_cancel(response, barrier, false);
#else
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(response),
      "r"(barrier)
      : "memory");
#endif
}
// To the same places of every CTA of the cluster, by one thread of the cluster. Each CTA has expected its 16 bytes
// before.
MXCHECK_SM100_DEVICE void try_cancel_multicast(SharedAddress response, SharedAddress barrier) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::try_cancel(response, barrier, true);
#else
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
      "[%0], [%1];" ::"r"(response),
      "r"(barrier)
      : "memory");
#endif
}

struct LaunchGrant {
  bool granted;    // a cluster was canceled: its work is the asker's
  unsigned block;  // index of its first CTA where granted, 0 otherwise
};

// Reads the answer in the slot, by one load of 128 bits: words read apart could be of two answers. (A .v4 load is four
// accesses in the PTX memory model, section "Vector Data-types".)
MXCHECK_SM100_DEVICE LaunchGrant query_cancel(SharedAddress response) {
#if MXCHECK_SM100_SOFTWARE
  emulation::sm100::ClcResponse answer{};
  emulation::sm100::load_shared(response, &answer, sizeof(answer));
  const bool granted = emulation::sm100::is_canceled(answer);
  return {granted, granted ? emulation::sm100::first_block(answer) : 0u};
#else
  std::uint32_t granted;
  std::uint32_t block;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      ".reg .b128 answer;\n"
      "ld.shared.b128 answer, [%2];\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n"
      "selp.b32 %0, 1, 0, p;\n"
      "mov.b32 %1, 0;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, _, _, _}, answer;\n"
      "}"
      : "=&r"(granted), "=&r"(block)
      : "r"(response)
      : "memory");
  return {granted != 0, block};
#endif
}

}  // namespace mxcheck::sm100
