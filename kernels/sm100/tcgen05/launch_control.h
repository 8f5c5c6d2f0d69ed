#pragma once
// Cluster launch control (PTX ISA, "clusterlaunchcontrol"): a running cluster asks for the place of one that has not
// started.
//
// The answer is 16 bytes of shared memory at a multiple of 16, written by the async proxy, which completes 16 bytes at
// the barrier (its phase expects them). Undefined, and so the caller's part: to ask again after a refusal was seen, and
// to multicast when a CTA of the cluster has exited. Before the slot is asked into again, its readers
// fence_proxy_async() and arrive.

#include <cstdint>

#include "kernels/sm100/tcgen05/shared.h"

namespace mxcheck::sm100 {

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
