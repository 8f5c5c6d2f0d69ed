#pragma once
// Instructions of memory and of threads under their PTX names, one function an instruction: mbarriers, TMA, cp.async,
// loads and stores, clusters, registers. Shared memory is named by its 32-bit address.

#include <cstdint>

#include <cuda.h>

namespace mxcheck_kernels::sm90::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// --- mbarriers ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void mbarrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes mbarrier initialization visible to the cluster and the async proxy after the cluster's next barrier.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the barrier that the CTA `rank` of the cluster has at the same address. With .cluster scope ptxas puts a
// device-wide fence before it; here only completed reads are ordered.
__device__ __forceinline__ void mbarrier_arrive_cluster(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_wait_parity(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// --- TMA ------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_3d(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier,
                                                        int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
// To the same address, and counted at the same barrier address, in every CTA of the mask.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_multicast(std::uint32_t to, const CUtensorMap* map,
                                                                  std::uint32_t barrier, int x, int y, int z,
                                                                  std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
      : "memory");
}
__device__ __forceinline__ void cp_async_bulk_tensor_3d_store(const CUtensorMap* map, std::uint32_t from, int x, int y,
                                                              int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y), "r"(z)
               : "memory");
}
// Into L2 only.
__device__ __forceinline__ void cp_async_bulk_prefetch_tensor_3d(const CUtensorMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until all but kPending of this thread's groups have read their shared memory.
template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Until all but kPending of them are done.
template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
// Between ordinary accesses to shared memory and those of TMA and wgmma.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- cp.async -------------------------------------------------------------------------------------------------------

// 16 bytes, or 16 zeros where `bytes` is 0.
__device__ __forceinline__ void cp_async_16(std::uint32_t to, const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// An arrival at the barrier, of those that its initialization counted, once all of this thread's copies are there.
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// --- warps, warpgroups, clusters ------------------------------------------------------------------------------------

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// A barrier of kThreads threads; barrier 0 is the CTA's.
template <int kThreads>
__device__ __forceinline__ void bar_sync(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
__device__ __forceinline__ std::uint32_t cluster_ctarank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void barrier_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// --- the kernel before, in a stream that lets this one begin early ---------------------------------------------------

// Until it has ended and what it wrote can be read.
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// The kernel after this one may begin, as far as it does not need this one.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// --- shared memory --------------------------------------------------------------------------------------------------

__device__ __forceinline__ float ld_shared_f32(std::uint32_t at) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ float2 ld_shared_v2_f32(std::uint32_t at) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ uint4 ld_shared_v4_u32(std::uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ uint2 ld_shared_v2_u32(std::uint32_t at) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ std::uint16_t ld_shared_u16(std::uint32_t at) {
  std::uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
  return v;
}
__device__ __forceinline__ void st_shared(std::uint32_t at, std::uint16_t v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(v) : "memory");
}
__device__ __forceinline__ void st_shared(std::uint32_t at, std::uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void st_shared(std::uint32_t at, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
}
__device__ __forceinline__ void st_shared(std::uint32_t at, float2 v) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(v.x), "f"(v.y) : "memory");
}
__device__ __forceinline__ void st_shared(std::uint32_t at, uint2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(v.x), "r"(v.y) : "memory");
}
__device__ __forceinline__ void st_shared(std::uint32_t at, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void st_shared(std::uint32_t at, int4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
// Four matrices of 8 rows of 16 bytes.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t at, std::uint32_t (&v)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t at, std::uint32_t (&v)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void stmatrix_x4_trans(std::uint32_t at, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}
__device__ __forceinline__ void stmatrix_x4(std::uint32_t at, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}

// --- global memory --------------------------------------------------------------------------------------------------

// Through the read-only path.
__device__ __forceinline__ void ld_global_nc(const void* at, std::uint32_t (&w)[2]) {
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(at));
}
__device__ __forceinline__ void ld_global_nc(const void* at, std::uint32_t (&w)[4]) {
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(at));
}
// The same, or zeros where it is not wanted. Without a branch, so that several loads are under way together.
__device__ __forceinline__ void ld_global_nc_if(std::uint64_t at, bool wanted, std::uint32_t (&w)[2]) {
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.nc.v2.u32 {%0, %1}, [%2];}"
      : "=&r"(w[0]), "=&r"(w[1])
      : "l"(at), "r"(static_cast<std::uint32_t>(wanted)));
}
__device__ __forceinline__ void ld_global_nc_if(std::uint64_t at, bool wanted, std::uint32_t (&w)[4]) {
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "
      "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "=&r"(w[0]), "=&r"(w[1]), "=&r"(w[2]), "=&r"(w[3])
      : "l"(at), "r"(static_cast<std::uint32_t>(wanted)));
}
// Past L1: what nothing reads here.
__device__ __forceinline__ void st_global_no_allocate(void* at, std::uint32_t v) {
  asm volatile("st.global.L1::no_allocate.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void st_global_no_allocate(void* at, uint2 v) {
  asm volatile("st.global.L1::no_allocate.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(v.x), "r"(v.y) : "memory");
}
__device__ __forceinline__ void st_global_no_allocate(void* at, float4 v) {
  asm volatile("st.global.L1::no_allocate.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}
__device__ __forceinline__ void st_global_no_allocate(void* at, const uint4& v) {
  asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
// One store of 16 bytes; of an assignment the compiler may make four.
__device__ __forceinline__ void st_global_v4(void* at, const uint4& v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

}  // namespace mxcheck_kernels::sm90::ptx
