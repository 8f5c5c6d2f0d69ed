#pragma once
// Who a thread is, and what it does with others of its warp, its CTA and the grid. The cluster's part is in cluster.h.
//
// Does not check that a warp is converged where that is required (elect, set_max_registers): the PTX ISA leaves the
// result undefined, and the emulation reports it.

#include <cstdint>

#include "kernels/sm100/tcgen05/target.h"

#if MXCHECK_SM100_EMULATED
  #include "emulation/sm100/instructions.h"
#elif MXCHECK_SM100_ON_SM90
  #include "emulation/on_sm90/instructions.cuh"
#endif

namespace mxcheck::sm100 {

inline constexpr unsigned kWarpThreads = 32;

// --- ids, of grids and CTAs with one dimension
// ---------------------------------------------------------------------------------

MXCHECK_SM100_DEVICE unsigned thread_index() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::thread_index();
#else
  return threadIdx.x;
#endif
}
MXCHECK_SM100_DEVICE unsigned block_threads() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::block_threads();
#elif MXCHECK_SM100_ON_SM90
  return emulation::sm100::block_threads();  // without those that stand for the tensor core
#else
  return blockDim.x;
#endif
}
MXCHECK_SM100_DEVICE unsigned block_index() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::block_index();
#else
  return blockIdx.x;
#endif
}
MXCHECK_SM100_DEVICE unsigned grid_blocks() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::grid_blocks();
#else
  return gridDim.x;
#endif
}
MXCHECK_SM100_DEVICE unsigned lane_index() { return thread_index() % kWarpThreads; }
// The same in all threads of a warp, and known to be by ptxas: it comes out of a shuffle.
MXCHECK_SM100_DEVICE unsigned warp_index() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::thread_index() / kWarpThreads;
#else
  return __shfl_sync(0xFFFFFFFFu, threadIdx.x / kWarpThreads, 0);
#endif
}
// The warp's part in the kernel, for the emulation's findings. No instruction.
MXCHECK_SM100_DEVICE void role([[maybe_unused]] const char* name) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::role(name);
#endif
}

// --- a warp
// --------------------------------------------------------------------------------------------------------------------

// True in one thread of a converged warp, the same one each time (PTX ISA, elect.sync; which one is not said: never
// rely on lane 0).
MXCHECK_SM100_DEVICE bool elect() {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::elect();
#else
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, %1;\n"
      "selp.b32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected)
      : "n"(0xFFFFFFFF));
  return elected != 0;
#endif
}
MXCHECK_SM100_DEVICE void sync_warp() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::sync_warp();
#else
  __syncwarp();
#endif
}
// `value` of the thread `lane`.
MXCHECK_SM100_DEVICE std::uint32_t shuffle(std::uint32_t value, unsigned lane) {
#if MXCHECK_SM100_EMULATED
  return emulation::sm100::shuffle(value, lane);
#else
  return __shfl_sync(0xFFFFFFFFu, value, static_cast<int>(lane));
#endif
}

// --- a CTA
// ---------------------------------------------------------------------------------------------------------------------

// Barriers 1 to 15, of `threads` threads (a multiple of 32). barrier.cta without .aligned: that one is undefined where
// warps reach it from different places of the code (PTX ISA, barrier.cta), which inlining can make of one place.
MXCHECK_SM100_DEVICE void sync_named(unsigned barrier, unsigned threads) {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::sync_named(barrier, threads);
#else
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}
MXCHECK_SM100_DEVICE void sync_block() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::sync_block();
#elif MXCHECK_SM100_ON_SM90
  sync_named(0, emulation::sm100::block_threads());
#else
  asm volatile("barrier.cta.sync 0;" ::: "memory");
#endif
}
// By all warps of a warpgroup. `kIncrease` waits until the registers are there, so others must have given them up
// before.
template <unsigned kRegisters, bool kIncrease>
MXCHECK_SM100_DEVICE void set_max_registers() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0, "PTX ISA, setmaxnreg: 24 to 256, by 8");
#if MXCHECK_SM100_EMULATED
  emulation::sm100::set_registers(kRegisters, kIncrease);
#elif MXCHECK_SM100_ON_SM90
  // A warpgroup may have threads of both kinds: registers stay as they are.
#else
  if constexpr (kIncrease) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters) : "memory");
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters) : "memory");
  }
#endif
}

// --- the kernel before in a stream, where the launch lets this one begin early
// -------------------------------------------------

// Until it has ended and what it wrote can be read.
MXCHECK_SM100_DEVICE void grid_dependency_wait() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::grid_dependency_wait();
#else
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The kernel after this one may begin. Says nothing about this one's results: the next waits for those.
MXCHECK_SM100_DEVICE void grid_dependency_launch() {
#if MXCHECK_SM100_EMULATED
  emulation::sm100::grid_dependency_launch();
#else
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace mxcheck::sm100
