#pragma once
// mbarriers (PTX ISA, "mbarrier"). A barrier is 8 bytes of shared memory at a multiple of 8.
//
// Scopes are written out. Without a qualifier both an arrival and a wait order memory among the threads of one CTA
// only, even where the address is of shared::cluster: two CTAs see each other's generic writes only if the arrival says
// .release.cluster and the wait .acquire.cluster. Scope::cluster is for every barrier at which another CTA arrives,
// TMA's multicast and commits included.
//
// A wait is by parity: it sees the phase now running and the one before, so each phase is waited for before arrivals of
// the next but one. Counts are 1 to 2^20 - 1. Only the own CTA's barriers can be waited for, initialized and
// invalidated.
//
// Example: barrier_init(full, 1); fence_barrier_init(); cluster_sync(); ... barrier_arrive_expect<Scope::cta>(full,
// kBytes);

#include <cstdint>

#include "emulation/sm100/operations.h"
#include "kernels/sm100/tcgen05/shared.h"

namespace mxcheck::sm100 {

using emulation::sm100::Scope;  // cta, cluster

MXCHECK_SM100_DEVICE void barrier_init(SharedAddress barrier, unsigned count) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::barrier_init(barrier, count);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
}
// Before its bytes are anything else, another barrier too.
MXCHECK_SM100_DEVICE void barrier_invalidate(SharedAddress barrier) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::barrier_invalidate(barrier);
#else
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
#endif
}
// By the thread that initialized, before the barrier of the CTA or cluster after which others use them; for the async
// proxy too.
MXCHECK_SM100_DEVICE void fence_barrier_init() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::fence_barrier_init();
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// With Scope::cluster the barrier may be another CTA's (map_to_rank).
template <Scope kScope>
MXCHECK_SM100_DEVICE void barrier_arrive(SharedAddress barrier) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::barrier_arrive(barrier, kScope);
#else
  if constexpr (kScope == Scope::cta) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  } else {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
  }
#endif
}
// Adds `bytes` to what the phase waits for, then arrives. With a pair's loads the leader's `bytes` are those of both
// CTAs.
template <Scope kScope>
MXCHECK_SM100_DEVICE void barrier_arrive_expect(SharedAddress barrier, unsigned bytes) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::barrier_arrive_expect(barrier, bytes, kScope);
#else
  if constexpr (kScope == Scope::cta) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
  }
#endif
}
// Until the phase of this parity is complete. try_wait suspends the thread for a time of the hardware's choice, hence
// the loop.
template <Scope kScope>
MXCHECK_SM100_DEVICE void barrier_wait(SharedAddress barrier, unsigned parity) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::barrier_wait(barrier, parity, kScope);
#elif MXCHECK_SM100_ON_SM90
  emulation::sm100::barrier_wait<kScope == Scope::cluster>(barrier, parity);  // the instruction below, and a watchdog
#else
  if constexpr (kScope == Scope::cta) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
  }
#endif
}

}  // namespace mxcheck::sm100
