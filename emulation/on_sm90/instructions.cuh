#pragma once
// Instructions of kernels/sm100/tcgen05 that sm_90a lacks, as functions that a kernel's threads call: those of
// tensor memory act at once, those of the tensor core go into the CTA's ring of commands (engine.cuh). And the waits,
// which are the hardware's, with a watchdog.
//
// Tensor memory is global memory, [column][lane]; the order that fences and waits make there is that of mbarriers,
// which are real.
//
// Does not promise: the checks of order (fences, waits, proxies): those are the CPU's. A load delivers at once.

#include "emulation/on_sm90/device.cuh"
#include "emulation/sm100/descriptor.h"

namespace mxcheck::emulation::sm100 {

using on_sm90::Code;
using on_sm90::Command;
using on_sm90::Control;
using on_sm90::control;

// --- who is there
// --------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned block_threads() { return control().kernel_threads; }

// --- waits
// --------------------------------------------------------------------------------------------------------------

template <bool kCluster>
__device__ __forceinline__ bool try_wait(std::uint32_t barrier, unsigned parity) {
  std::uint32_t done;
  if constexpr (kCluster) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.b32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n"
        "selp.b32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
  return done != 0;
}

template <bool kCluster>
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, unsigned parity) {
  if (try_wait<kCluster>(barrier, parity)) return;
  Control& c = control();
  const unsigned warp = threadIdx.x / 32;
  on_sm90::publish(c.waiting[warp], barrier);  // the lazy schedule goes on for those that wait
  on_sm90::Watchdog watchdog;
  while (!try_wait<kCluster>(barrier, parity)) {
    if (watchdog.expired(c.launch.limit_ns)) on_sm90::stop(Code::barrier_wait, barrier, parity);
  }
  on_sm90::publish(c.waiting[warp], 0);
  on_sm90::random_delay(c.launch, 2 + warp, barrier ^ parity);
}

// Every thread of the kernel arrives at each CTA of the cluster, and waits in its own.
__device__ __forceinline__ void cluster_arrive() {
  const std::uint32_t barrier = on_sm90::shared_address(&control().cluster_barrier);
  for (std::uint32_t r = 0; r < on_sm90::ranks(); ++r) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(on_sm90::mapped(barrier, r))
                 : "memory");
  }
}
__device__ __forceinline__ void cluster_wait() {
  Control& c = control();
  std::uint8_t& parity = c.cluster_parity[threadIdx.x];
  barrier_wait<true>(on_sm90::shared_address(&c.cluster_barrier), parity);
  parity ^= 1;
}

// --- a pair's loads
// --------------------------------------------------------------------------------------------------------------

// Hopper's TMA counts at the CTA that it writes alone: the load counts at a barrier of the warp's, and this thread
// hands the bytes on to the one that the kernel names. They are visible to whoever sees that phase end: acquired here,
// and released by the fence before the count.
template <class... At>
__device__ __forceinline__ void tma_load_pair(std::uint32_t to, const void* map, std::uint32_t bytes,
                                              std::uint32_t barrier, At... at) {
  static_assert(sizeof...(At) == 2 || sizeof...(At) == 3, "maps of 2 and 3 dimensions have loads");
  Control& c = control();
  const unsigned warp = threadIdx.x / 32;
  const std::uint32_t shadow = on_sm90::shared_address(&c.shadow[warp]);
  on_sm90::random_delay(c.launch, 40 + warp, to);
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shadow), "r"(bytes)
               : "memory");
  if constexpr (sizeof...(At) == 2) {
    const int x[] = {at...};
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            to),
        "l"(map), "r"(shadow), "r"(x[0]), "r"(x[1])
        : "memory");
  } else {
    const int x[] = {at...};
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(to),
        "l"(map), "r"(shadow), "r"(x[0]), "r"(x[1]), "r"(x[2])
        : "memory");
  }
  barrier_wait<false>(shadow, c.shadow_parity[warp]);
  c.shadow_parity[warp] ^= 1;
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
template <class... At>
__device__ __forceinline__ void tma_load_pair_multicast(std::uint32_t, const void*, std::uint32_t, std::uint32_t,
                                                        At...) {
  on_sm90::stop(Code::form, 0);
}

// --- tensor memory
// --------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void one_cta_group(Control& c, int cta_group) {
  const auto group = static_cast<std::uint32_t>(cta_group);
  const std::uint32_t before = atomicCAS(&c.cta_group, 0, group);
  if (before != 0 && before != group) on_sm90::report(Code::cta_group, group);
}

__device__ __forceinline__ bool is_free(const Control& c, std::uint32_t column, std::uint32_t columns) {
  for (const on_sm90::Allocation& a : c.allocations) {
    if (column < a.column + a.columns && a.column < column + columns) return false;
  }
  return true;
}
// A free place of `columns` columns: the first, or under the random schedule any; kTmemColumns where there is none.
__device__ __forceinline__ std::uint32_t find_free(const Control& c, std::uint32_t columns, bool any) {
  std::uint32_t count = 0;
  for (std::uint32_t at = 0; at + columns <= on_sm90::kTmemColumns; at += 32) count += is_free(c, at, columns) ? 1 : 0;
  if (count == 0) return on_sm90::kTmemColumns;
  std::uint32_t skip = any ? on_sm90::random_of(c.launch.seed, 3, columns) % count : 0;
  for (std::uint32_t at = 0; at + columns <= on_sm90::kTmemColumns; at += 32) {
    if (is_free(c, at, columns) && skip-- == 0) return at;
  }
  return on_sm90::kTmemColumns;
}

// By one thread.
__device__ __noinline__ inline void allocate(int cta_group, std::uint32_t slot, unsigned columns) {
  Control& c = control();
  one_cta_group(c, cta_group);
  if (columns < 32 || columns > 512 || (columns & (columns - 1)) != 0) on_sm90::stop(Code::allocation, columns);
  if (c.relinquished != 0) on_sm90::stop(Code::allocation_after_relinquish, columns);
  if (c.last_columns != 0 && columns > c.last_columns) on_sm90::report(Code::allocation_grows, columns);
  c.last_columns = columns;
  const bool any = c.launch.timing == on_sm90::Timing::random && cta_group == 1;
  std::uint32_t at = find_free(c, columns, any);
  on_sm90::Watchdog watchdog;
  while (at == on_sm90::kTmemColumns) {
    if (watchdog.expired(c.launch.limit_ns)) on_sm90::stop(Code::allocation, columns);
    __nanosleep(200);
    asm volatile("" ::: "memory");
    at = find_free(c, columns, any);
  }
  for (on_sm90::Allocation& a : c.allocations) {
    if (a.columns != 0) continue;
    a = {at, columns};
    break;
  }
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(slot), "r"(at) : "memory");
}
__device__ __forceinline__ void tmem_alloc(int cta_group, std::uint32_t slot, unsigned columns) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) allocate(cta_group, slot, columns);
  __syncwarp();
}
__device__ __noinline__ inline void release(int cta_group, std::uint32_t address, unsigned columns) {
  Control& c = control();
  one_cta_group(c, cta_group);
  for (on_sm90::Allocation& a : c.allocations) {
    if (a.columns == 0 || a.column != address || a.columns != columns) continue;
    a = {0, 0};
    return;
  }
  on_sm90::stop(Code::allocation, columns, address);
}
__device__ __forceinline__ void tmem_dealloc(int cta_group, std::uint32_t address, unsigned columns) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) release(cta_group, address, columns);
  __syncwarp();
}
__device__ __forceinline__ void tmem_relinquish(int cta_group) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    one_cta_group(control(), cta_group);
    control().relinquished = 1;
  }
  __syncwarp();
}

__device__ __forceinline__ void check_access(const Control& c, std::uint32_t address, unsigned lanes, unsigned first,
                                             unsigned columns) {
  const unsigned lane = address >> 16;
  const unsigned slab = threadIdx.x / 32 % 4 * 32;
  if (lane < slab || lane + lanes > slab + 32 || lane % 16 != 0) on_sm90::stop(Code::lanes, address);
  const unsigned column = (address & 0xFFFFu) + first;
  for (unsigned i = threadIdx.x % 32; i < columns; i += 32) {
    if (column + i >= on_sm90::kTmemColumns || is_free(c, column + i, 1)) on_sm90::stop(Code::column, column + i);
  }
}
// Columns of an access: of .x1 1, 2, 4, 8 and, twice, 1.
__device__ __forceinline__ void check_access(const Control& c, TmemShape shape, unsigned num, bool halves,
                                             std::uint32_t address, unsigned half_split) {
  const unsigned width = shape == TmemShape::lanes16x64b    ? 2
                         : shape == TmemShape::lanes16x128b ? 4
                         : shape == TmemShape::lanes16x256b ? 8
                                                            : 1;
  const unsigned lanes = shape == TmemShape::lanes32x32b ? 32 : 16;
  check_access(c, address, lanes, 0, width * num * (halves ? 2 : 1));
  if (shape == TmemShape::lanes16x32bx2) check_access(c, address, lanes, half_split, num);
}

template <unsigned kCount>
__device__ __forceinline__ void tmem_ld(TmemShape shape, unsigned num, bool pack16, std::uint32_t address,
                                        std::uint32_t (&to)[kCount], unsigned half_split = 0) {
  const Control& c = control();
  check_access(c, shape, num, pack16, address, half_split);
  // Up to a millisecond, as long as a tile takes: who gives an accumulator back too early has it overwritten.
  on_sm90::random_delay<20, 8>(c.launch, 70 + threadIdx.x / 32, address ^ static_cast<std::uint32_t>(clock64()));
  const std::uint32_t* cells = c.tmem;
#pragma unroll
  for (unsigned r = 0; r < kCount; ++r) {
    const TmemPlace p = register_place(shape, threadIdx.x % 32, r, half_split);
    const unsigned column = (address & 0xFFFFu) + (pack16 ? 2 * p.column : p.column);
    const std::uint32_t* cell = cells + column * on_sm90::kTmemLanes + (address >> 16) + p.lane;
    to[r] = pack16 ? (cell[0] & 0xFFFFu) | cell[on_sm90::kTmemLanes] << 16 : cell[0];
  }
}
template <unsigned kCount>
__device__ __forceinline__ void tmem_st(TmemShape shape, unsigned num, bool unpack16, std::uint32_t address,
                                        const std::uint32_t (&from)[kCount], unsigned half_split = 0) {
  const Control& c = control();
  check_access(c, shape, num, unpack16, address, half_split);
  std::uint32_t* cells = c.tmem;
#pragma unroll
  for (unsigned r = 0; r < kCount; ++r) {
    const TmemPlace p = register_place(shape, threadIdx.x % 32, r, half_split);
    const unsigned column = (address & 0xFFFFu) + (unpack16 ? 2 * p.column : p.column);
    std::uint32_t* cell = cells + column * on_sm90::kTmemLanes + (address >> 16) + p.lane;
    cell[0] = unpack16 ? from[r] & 0xFFFFu : from[r];
    if (unpack16) cell[on_sm90::kTmemLanes] = from[r] >> 16;
  }
}
__device__ __forceinline__ void tmem_wait_ld() { asm volatile("" ::: "memory"); }
__device__ __forceinline__ void tmem_wait_st() { asm volatile("" ::: "memory"); }
__device__ __forceinline__ void fence_before_thread_sync() { asm volatile("" ::: "memory"); }
__device__ __forceinline__ void fence_after_thread_sync() { asm volatile("" ::: "memory"); }

// --- the tensor core
// --------------------------------------------------------------------------------------------------------------

// By one thread: waits for a place in the ring.
__device__ __noinline__ inline void issue(const Command& command) {
  Control& c = control();
  one_cta_group(c, static_cast<int>(command.cta_group));
  const std::uint32_t who = threadIdx.x + 1;
  const std::uint32_t before = atomicCAS(&c.issuer, 0, who);
  if (before != 0 && before != who) on_sm90::report(Code::issuer, threadIdx.x);
  if (command.cta_group == 2 && (on_sm90::ranks() % 2 != 0 || on_sm90::rank() % 2 != 0)) {
    on_sm90::stop(Code::pair, on_sm90::rank());
  }
  const std::uint32_t number = atomicAdd(&c.issued, 1);
  on_sm90::Watchdog watchdog;
  while (number - on_sm90::observe(c.executed) >= on_sm90::kRing) {
    if (watchdog.expired(c.launch.limit_ns)) on_sm90::stop(Code::tensor_core_idle, number);
  }
  c.ring[number % on_sm90::kRing] = command;
  on_sm90::publish(c.ready[number % on_sm90::kRing], number + 1);
}

__device__ __forceinline__ void mma(const Mma& m) {
  issue({.op = Command::Op::mma,
         .kind = m.kind,
         .shape = {},
         .mask = 0,
         .cta_group = static_cast<std::uint32_t>(m.cta_group),
         .to = m.d,
         .instruction = m.instruction,
         .a = m.a,
         .b = m.b,
         .scales_a = m.scales_a,
         .scales_b = m.scales_b,
         .accumulate = m.accumulate ? 1u : 0u,
         .reserved = 0});
}
__device__ __forceinline__ void cp(CpShape shape, int cta_group, std::uint32_t to, std::uint64_t descriptor) {
  issue({.op = Command::Op::cp,
         .kind = {},
         .shape = shape,
         .mask = 0,
         .cta_group = static_cast<std::uint32_t>(cta_group),
         .to = to,
         .instruction = 0,
         .a = descriptor,
         .b = 0,
         .scales_a = 0,
         .scales_b = 0,
         .accumulate = 0,
         .reserved = 0});
}
__device__ __forceinline__ void commit(int cta_group, std::uint32_t barrier, std::uint16_t multicast) {
  issue({.op = Command::Op::commit,
         .kind = {},
         .shape = {},
         .mask = multicast,
         .cta_group = static_cast<std::uint32_t>(cta_group),
         .to = barrier,
         .instruction = 0,
         .a = 0,
         .b = 0,
         .scales_a = 0,
         .scales_b = 0,
         .accumulate = 0,
         .reserved = 0});
}

// --- launch control
// --------------------------------------------------------------------------------------------------------------

// The answer: bit 0 of `low` where granted, the first block in `high`. Each CTA's 16 bytes, then their count, released:
// what the hardware's async proxy does.
__device__ __forceinline__ void try_cancel(std::uint32_t response, std::uint32_t barrier, bool multicast) {
  const Control& c = control();
  on_sm90::random_delay(c.launch, 60, response);
  const bool any = c.launch.timing == on_sm90::Timing::random;
  const std::uint32_t all = on_sm90::clusters();
  const std::uint32_t from = any ? on_sm90::random_of(c.launch.seed, 61, barrier) % all : 0;
  const std::uint32_t cluster = on_sm90::claim_any(c.launch, from);
  const std::uint32_t granted = cluster < all ? 1 : 0;
  for (std::uint32_t r = 0; r < on_sm90::ranks(); ++r) {
    if (!multicast && r != on_sm90::rank()) continue;
    const std::uint32_t to = on_sm90::mapped(response, r);
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(granted), "r"(0),
                 "r"(granted * cluster * on_sm90::ranks()), "r"(0)
                 : "memory");
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    asm volatile(
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(on_sm90::mapped(barrier, r)), "r"(16)
        : "memory");
  }
}
__device__ __forceinline__ bool is_canceled(const ClcResponse& response) { return (response.low & 1) != 0; }
__device__ __forceinline__ std::uint32_t first_block(const ClcResponse& response) {
  return static_cast<std::uint32_t>(response.high);
}
__device__ __forceinline__ void load_shared(std::uint32_t address, ClcResponse* to, std::size_t) {
  asm volatile("ld.shared.v2.b64 {%0, %1}, [%2];" : "=l"(to->low), "=l"(to->high) : "r"(address) : "memory");
}

}  // namespace mxcheck::emulation::sm100
