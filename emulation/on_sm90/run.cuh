#pragma once
// A Blackwell kernel on Hopper: its threads first, kEngineThreads behind them for the tensor core.
//
//   __global__ void __launch_bounds__(kThreads + kEngineThreads, 1) entry(const __grid_constant__ Params p,
//                                                                         const __grid_constant__ Launch launch) {
//     run(launch, kThreads, [&] { kernel(p); });
//   }
//
// or, of a kernel that is compiled as it is, enter() first and leave() last.
//
// Started with kControlBytes of dynamic shared memory more than the kernel's, which are a multiple of 16
// (on_sm90/launch.h).

#include "emulation/on_sm90/engine.cuh"
#include "emulation/on_sm90/instructions.cuh"

namespace mxcheck::emulation::on_sm90 {

__device__ __forceinline__ void native_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ void begin(Control& c, const Launch& launch, unsigned kernel_threads) {
  auto* words = reinterpret_cast<std::uint32_t*>(&c);
  for (unsigned i = threadIdx.x; i < sizeof(Control) / 4; i += blockDim.x) words[i] = 0;
  std::uint32_t* tmem = launch.tmem + std::size_t{blockIdx.x} * kTmemWords;
  for (unsigned i = threadIdx.x; i < kTmemWords; i += blockDim.x) tmem[i] = kPoison;
  __syncthreads();
  if (threadIdx.x == 0) {
    c.launch = launch;
    c.tmem = tmem;
    c.kernel_threads = kernel_threads;
    const auto init = [](std::uint64_t& barrier, unsigned count) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count) : "memory");
    };
    init(c.cluster_barrier, kernel_threads * ranks());
    for (std::uint64_t& shadow : c.shadow) init(shadow, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (rank() == 0) c.canceled = claim(launch, blockIdx.x / ranks()) ? 0 : 1;
  }
  native_cluster_sync();
  if (observe_at(mapped(shared_address(&c.canceled), 0)) == 0) return;
  native_cluster_sync();  // rank 0 has been asked by all
  asm volatile("exit;");
}

__device__ __forceinline__ void end(const Control& c) {
  native_cluster_sync();  // the peer's engine is over too
  if (threadIdx.x != 0) return;
  for (const Allocation& a : c.allocations) {
    if (a.columns != 0) report(Code::not_freed, a.column, a.columns);
  }
}

// The kernel's threads come back; those of the engine end here.
__device__ __forceinline__ void enter(const Launch& launch, unsigned kernel_threads) {
  Control& c = control();
  begin(c, launch, kernel_threads);
  if (threadIdx.x < kernel_threads) return;
  engine(c);
  end(c);
  asm volatile("exit;");
}
// By every thread of the kernel.
__device__ __forceinline__ void leave() {
  Control& c = control();
  asm volatile("fence.acq_rel.cta;" ::: "memory");
  atomicAdd(&c.finished, 1);
  end(c);
}

template <class Kernel>
__device__ __forceinline__ void run(const Launch& launch, unsigned kernel_threads, const Kernel& kernel) {
  enter(launch, kernel_threads);
  kernel();
  leave();
}

}  // namespace mxcheck::emulation::on_sm90
