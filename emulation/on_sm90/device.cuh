#pragma once
// Building blocks of this folder's device code: the control block's place, release and acquire in shared memory,
// random delays, findings, the watchdog.

#include "emulation/on_sm90/control.h"

namespace mxcheck::emulation::on_sm90 {

extern __shared__ __align__(1024) unsigned char engine_shared_memory[];  // the kernel's begins here too

// Behind the kernel's: a launch asks for kControlBytes more, and the kernel's part is a multiple of 16.
__device__ __forceinline__ Control& control() {
  std::uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return *reinterpret_cast<Control*>(engine_shared_memory + (bytes - kControlBytes));
}

// --- small things
// --------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ std::uint32_t mapped(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ __forceinline__ std::uint32_t rank() {
  std::uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ std::uint32_t ranks() {
  std::uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ std::uint64_t now_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
// A release and an acquire of any word of the cluster's shared memory.
__device__ __forceinline__ void publish_at(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ __forceinline__ std::uint32_t observe_at(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.acquire.cluster.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ void publish(std::uint32_t& word, std::uint32_t value) {
  publish_at(shared_address(&word), value);
}
__device__ __forceinline__ std::uint32_t observe(const std::uint32_t& word) {
  return observe_at(shared_address(&word));
}

// Any number of a launch, a CTA, a place and a time: splitmix64's finalizer.
__device__ __forceinline__ std::uint32_t random_of(std::uint64_t seed, std::uint32_t place, std::uint32_t count) {
  std::uint64_t x = seed + blockIdx.x * 0x9E3779B97F4A7C15ull + (std::uint64_t{place} << 32 | count);
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 27) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>(x >> 32);
}
// A delay of the random schedule: one time in kOneIn, a power of two, up to 2^kBits ns.
template <int kBits = 13, std::uint32_t kOneIn = 2>
__device__ __forceinline__ void random_delay(const Launch& launch, std::uint32_t place, std::uint32_t count) {
  if (launch.timing != Timing::random) return;
  const std::uint32_t r = random_of(launch.seed, place, count);
  if (r % kOneIn == 0) __nanosleep(r >> (32 - kBits));
}

// --- findings
// --------------------------------------------------------------------------------------------------------------

__device__ __noinline__ inline void report(Code code, std::uint64_t value, std::uint64_t other = 0) {
  const Launch& launch = control().launch;
  const std::uint32_t i = atomicAdd(&launch.counts[0], 1);
  if (i < kMostFindings) {
    launch.report->findings[i] = {code, blockIdx.x, threadIdx.x / 32, threadIdx.x % 32, value, other};
  }
  launch.report->count = i + 1;  // two at once may leave the smaller; the host looks at every place
  __threadfence_system();
}
// A finding after which the run can say nothing more: the whole launch ends.
__device__ __noinline__ inline void stop(Code code, std::uint64_t value, std::uint64_t other = 0) {
  report(code, value, other);
  __trap();
}

// Since when a thread waits, and whether that is too long.
struct Watchdog {
  std::uint64_t begin = 0;
  __device__ __forceinline__ bool expired(std::uint64_t limit_ns) {
    const std::uint64_t now = now_ns();
    if (begin == 0) begin = now;
    return now - begin > limit_ns;
  }
};

// --- launch control
//
// Cluster launch control without the hardware's: a word of device memory for each cluster of the grid, which the first
// to ask has. A cluster that starts asks for itself, and ends where another was first.

__device__ __forceinline__ std::uint32_t clusters() { return gridDim.x / ranks(); }

// True if nobody had it.
__device__ __forceinline__ bool claim(const Launch& launch, std::uint32_t cluster) {
  return atomicCAS(&launch.claims[cluster], 0, 1) == 0;
}

// The first cluster that nobody has, from `from` on and round; clusters() where there is none. The random schedule
// begins anywhere: which one the hardware gives is not said.
__device__ __forceinline__ std::uint32_t claim_any(const Launch& launch, std::uint32_t from) {
  const std::uint32_t all = clusters();
  for (std::uint32_t i = 0; i < all; ++i) {
    const std::uint32_t cluster = (from + i) % all;
    if (claim(launch, cluster)) return cluster;
  }
  return all;
}

}  // namespace mxcheck::emulation::on_sm90
