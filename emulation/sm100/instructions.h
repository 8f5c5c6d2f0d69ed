#pragma once
// Functions that the thin layer of kernels/sm100/tcgen05 calls where there is no Blackwell: one for each instruction,
// called by the fibre of one thread. A warp's collective instruction is called by all 32 of its threads.
//
// Addresses. Shared memory is a window of 32 bits: bits 23:0 are the offset in a CTA's shared memory, bits 31:24 the
// CTA's rank in its cluster plus 1, 0 for the caller's own (shared::cta). Tensor memory is as PTX has it: lane in
// 31:16, column in 15:0.
//
// Errors: none is returned. What the PTX ISA forbids, or leaves undefined, becomes a finding of the launch (launch.h),
// with the role, warp and lane that did it; the run goes on where that has a meaning and ends where it has none.
//
// Sources: PTX ISA 9.0, sections 9.7.13 (mbarrier, cp.async.bulk) and 9.7.16 (tcgen05).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "emulation/sm100/operations.h"

namespace mxcheck::emulation::sm100 {

// Who is calling.
unsigned thread_index();  // in the CTA
unsigned block_threads();
unsigned block_index();
unsigned grid_blocks();
unsigned cluster_rank();
unsigned cluster_blocks();
void role(const char* name);  // for findings and dumps: the warp's part in the kernel

// Threads of a warp, of a CTA, of a cluster.
bool elect();  // elect.sync of the whole warp: true in lane 0
void sync_warp();
std::uint32_t shuffle(std::uint32_t value, unsigned lane);  // shfl.sync.idx of the whole warp
void sync_named(unsigned barrier, unsigned threads);        // bar.sync
void sync_block();
void set_registers(unsigned count, bool increases);  // setmaxnreg: by whole warpgroups, 24 to 256, a multiple of 8
void cluster_arrive();                               // barrier.cluster.arrive.release
void cluster_wait();                                 // barrier.cluster.wait.acquire
void grid_dependency_wait();                         // griddepcontrol.wait
void grid_dependency_launch();                       // griddepcontrol.launch_dependents

// Shared memory, through the generic proxy.
std::uint32_t shared_base();  // of dynamic shared memory
std::uint32_t map_shared_rank(std::uint32_t address, unsigned rank);
void load_shared(std::uint32_t address, void* to, std::size_t bytes);
void store_shared(std::uint32_t address, const void* from, std::size_t bytes);
void fence_proxy_async();  // fence.proxy.async.shared::cta

// mbarriers.
void barrier_init(std::uint32_t barrier, unsigned count);
void barrier_invalidate(std::uint32_t barrier);
void fence_barrier_init();  // fence.mbarrier_init.release.cluster
void barrier_arrive(std::uint32_t barrier, Scope scope);
void barrier_arrive_expect(std::uint32_t barrier, unsigned bytes, Scope scope);  // mbarrier.arrive.expect_tx
void barrier_wait(std::uint32_t barrier, unsigned parity, Scope scope);          // try_wait.parity until it succeeds

// TMA and bulk copies. `multicast` is a mask of ranks; 0 copies to the named destination alone. cta_group 0: the
// qualifier is absent.
struct TmaLoad {
  std::uint32_t to;
  const TensorMap* map;
  std::span<const std::int32_t> at;  // coordinates, innermost first
  std::uint32_t barrier;
  int cta_group = 0;
  std::uint16_t multicast = 0;
};
void tma_load(const TmaLoad& load);
// tile::gather4: four rows of a tensor of two dimensions, whose map has boxes of one row.
struct TmaGather4 {
  std::uint32_t to;
  const TensorMap* map;
  std::int32_t x;
  std::array<std::int32_t, 4> rows;
  std::uint32_t barrier;
  int cta_group = 0;
};
void tma_gather4(const TmaGather4& load);
void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t barrier, std::uint16_t multicast);
void tma_store(const TensorMap* map, std::span<const std::int32_t> at, std::uint32_t from);
void bulk_store(void* to, std::uint32_t from, unsigned bytes);
void bulk_commit_group();
void bulk_wait_group(unsigned pending, bool reads_only);  // cp.async.bulk.wait_group[.read]

// Tensor memory.
void tmem_alloc(int cta_group, std::uint32_t slot, unsigned columns);
void tmem_dealloc(int cta_group, std::uint32_t address, unsigned columns);
void tmem_relinquish(int cta_group);
// `num` is the .xN; `half_split` the immediate of 16x32bx2. Registers hold what was loaded after tmem_wait_ld alone.
void tmem_ld(TmemShape shape, unsigned num, bool pack16, std::uint32_t address, std::span<std::uint32_t> registers,
             unsigned half_split = 0);
void tmem_st(TmemShape shape, unsigned num, bool unpack16, std::uint32_t address,
             std::span<const std::uint32_t> registers, unsigned half_split = 0);
void tmem_wait_ld();
void tmem_wait_st();
void fence_before_thread_sync();
void fence_after_thread_sync();

// Tensor cores.
void mma(const Mma& mma);
void cp(CpShape shape, int cta_group, std::uint32_t to, std::uint64_t descriptor);
void commit(int cta_group, std::uint32_t barrier, std::uint16_t multicast);

// Cluster launch control.
void try_cancel(std::uint32_t response, std::uint32_t barrier, bool multicast);
bool is_canceled(const ClcResponse& response);
std::uint32_t first_block(const ClcResponse& response);

}  // namespace mxcheck::emulation::sm100
