// Every function of kernels/sm100/tcgen05 in a kernel of its own, named function__variant, so that ptx_forms.py can say
// what each has become and compare it with forms.txt. Never run. As plain C++ the same text must compile with the other
// bodies.
//
// A kernel's parameters are those of the function, in its order, which is how ptx_forms.py knows an operand: $0, $1,
// ... Results go to out[], what is stored comes from in[]; both are the last parameter.

#include <cstdint>

#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/descriptor.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/numbers.h"
#include "kernels/sm100/tcgen05/shared.h"
#include "kernels/sm100/tcgen05/tensor_map.h"
#include "kernels/sm100/tcgen05/tma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"

using namespace mxcheck::sm100;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// With bounds: ptxas ignores setmaxnreg where it does not know how many registers a thread begins with.
#define FORM extern "C" MXCHECK_SM100_KERNEL void MXCHECK_SM100_LAUNCH_BOUNDS(256)

// --- warp.h
FORM thread_index__(u32* out) { out[0] = thread_index(); }
FORM block_threads__(u32* out) { out[0] = block_threads(); }
FORM block_index__(u32* out) { out[0] = block_index(); }
FORM grid_blocks__(u32* out) { out[0] = grid_blocks(); }
FORM warp_index__(u32* out) { out[0] = warp_index(); }
FORM role__() { role("no instruction"); }
FORM elect__(u32* out) { out[0] = elect() ? 1 : 0; }
FORM sync_warp__() { sync_warp(); }
FORM shuffle__(u32 value, u32 lane, u32* out) { out[0] = shuffle(value, lane); }
FORM sync_named__(u32 barrier, u32 threads) { sync_named(barrier, threads); }
FORM sync_block__() { sync_block(); }
FORM set_max_registers__inc_232() { set_max_registers<232, true>(); }
FORM set_max_registers__dec_40() { set_max_registers<40, false>(); }
FORM grid_dependency_wait__() { grid_dependency_wait(); }
FORM grid_dependency_launch__() { grid_dependency_launch(); }

// --- shared.h
struct Two {
  u32 w[2];
};
struct Four {
  u32 w[4];
};
FORM shared_base__(u32* out) { out[0] = shared_base(); }
FORM load_shared__4(SharedAddress address, u32* out) { out[0] = load_shared<u32>(address); }
FORM load_shared__8(SharedAddress address, u32* out) {
  const Two v = load_shared<Two>(address);
  for (int i = 0; i < 2; ++i) out[i] = v.w[i];
}
FORM load_shared__16(SharedAddress address, u32* out) {
  const Four v = load_shared<Four>(address);
  for (int i = 0; i < 4; ++i) out[i] = v.w[i];
}
FORM store_shared__4(SharedAddress address, const u32* in) { store_shared(address, in[0]); }
FORM store_shared__8(SharedAddress address, const u32* in) { store_shared(address, Two{in[0], in[1]}); }
FORM store_shared__16(SharedAddress address, const u32* in) { store_shared(address, Four{in[0], in[1], in[2], in[3]}); }
FORM fence_proxy_async__() { fence_proxy_async(); }

// --- barrier.h
FORM barrier_init__(SharedAddress barrier, u32 count) { barrier_init(barrier, count); }
FORM barrier_invalidate__(SharedAddress barrier) { barrier_invalidate(barrier); }
FORM fence_barrier_init__() { fence_barrier_init(); }
FORM barrier_arrive__cta(SharedAddress barrier) { barrier_arrive<Scope::cta>(barrier); }
FORM barrier_arrive__cluster(SharedAddress barrier) { barrier_arrive<Scope::cluster>(barrier); }
FORM barrier_arrive_expect__cta(SharedAddress barrier, u32 bytes) { barrier_arrive_expect<Scope::cta>(barrier, bytes); }
FORM barrier_arrive_expect__cluster(SharedAddress barrier, u32 bytes) {
  barrier_arrive_expect<Scope::cluster>(barrier, bytes);
}
FORM barrier_wait__cta(SharedAddress barrier, u32 parity) { barrier_wait<Scope::cta>(barrier, parity); }
FORM barrier_wait__cluster(SharedAddress barrier, u32 parity) { barrier_wait<Scope::cluster>(barrier, parity); }

// --- cluster.h
FORM cluster_rank__(u32* out) { out[0] = cluster_rank(); }
FORM cluster_blocks__(u32* out) { out[0] = cluster_blocks(); }
FORM map_to_rank__(SharedAddress address, u32 rank, u32* out) { out[0] = map_to_rank(address, rank); }
FORM cluster_arrive__() { cluster_arrive(); }
FORM cluster_wait__() { cluster_wait(); }
FORM cluster_sync__() { cluster_sync(); }

// --- launch_control.h
FORM try_cancel__(SharedAddress response, SharedAddress barrier) { try_cancel(response, barrier); }
FORM try_cancel_multicast__(SharedAddress response, SharedAddress barrier) { try_cancel_multicast(response, barrier); }
FORM query_cancel__(SharedAddress response, u32* out) {
  const LaunchGrant grant = query_cancel(response);
  out[0] = grant.granted ? 1 : 0;
  out[1] = grant.block;
}

// --- tma.h
FORM prefetch_map__(const TensorMap* map) { prefetch_map(map); }
#define GROUPS(OF) OF(0) OF(1) OF(2)
#define LOAD(G)                                                                                               \
  FORM tma_load__2d_##G(SharedAddress to, const TensorMap* map, SharedAddress barrier, int x, int y) {        \
    tma_load<G>(to, map, barrier, x, y);                                                                      \
  }                                                                                                           \
  FORM tma_load__3d_##G(SharedAddress to, const TensorMap* map, SharedAddress barrier, int x, int y, int z) { \
    tma_load<G>(to, map, barrier, x, y, z);                                                                   \
  }
GROUPS(LOAD)
#define MULTICAST(G)                                                                                                 \
  FORM tma_load_multicast__2d_##G(SharedAddress to, const TensorMap* map, SharedAddress barrier, std::uint16_t mask, \
                                  int x, int y) {                                                                    \
    tma_load_multicast<G>(to, map, barrier, mask, x, y);                                                             \
  }                                                                                                                  \
  FORM tma_load_multicast__3d_##G(SharedAddress to, const TensorMap* map, SharedAddress barrier, std::uint16_t mask, \
                                  int x, int y, int z) {                                                             \
    tma_load_multicast<G>(to, map, barrier, mask, x, y, z);                                                          \
  }
GROUPS(MULTICAST)
#define GATHER4(G)                                                                                                \
  FORM tma_gather4__##G(SharedAddress to, const TensorMap* map, SharedAddress barrier, int x, int row0, int row1, \
                        int row2, int row3) {                                                                     \
    tma_gather4<G>(to, map, barrier, x, row0, row1, row2, row3);                                                  \
  }
GATHER4(0)
GATHER4(1) GATHER4(2) FORM bulk_load__(SharedAddress to, const void* from, u32 bytes, SharedAddress barrier) {
  bulk_load(to, from, bytes, barrier);
}
FORM bulk_load_multicast__(SharedAddress to, const void* from, u32 bytes, SharedAddress barrier, std::uint16_t mask) {
  bulk_load_multicast(to, from, bytes, barrier, mask);
}
FORM tma_store__2d(const TensorMap* map, SharedAddress from, int x, int y) { tma_store(map, from, x, y); }
FORM tma_store__3d(const TensorMap* map, SharedAddress from, int x, int y, int z) { tma_store(map, from, x, y, z); }
FORM bulk_store__(void* to, SharedAddress from, u32 bytes) { bulk_store(to, from, bytes); }
FORM bulk_commit_group__() { bulk_commit_group(); }
FORM bulk_wait_group__0() { bulk_wait_group<0>(); }
FORM bulk_wait_group__3() { bulk_wait_group<3>(); }
FORM bulk_wait_group_read__0() { bulk_wait_group_read<0>(); }
FORM bulk_wait_group_read__3() { bulk_wait_group_read<3>(); }

// --- tmem.h
#define LIFE(G, COLUMNS)                                                                 \
  FORM tmem_alloc__##G##_##COLUMNS(SharedAddress slot) { tmem_alloc<G, COLUMNS>(slot); } \
  FORM tmem_dealloc__##G##_##COLUMNS(TmemAddress address) { tmem_dealloc<G, COLUMNS>(address); }
#define LIVES(G) LIFE(G, 32) LIFE(G, 64) LIFE(G, 128) LIFE(G, 256) LIFE(G, 512)
LIVES(1)
LIVES(2)
FORM tmem_relinquish__1() { tmem_relinquish<1>(); }
FORM tmem_relinquish__2() { tmem_relinquish<2>(); }

template <int kCount>
MXCHECK_SM100_DEVICE void write(const Fragment<kCount>& from, u32* out) {
  MXCHECK_SM100_UNROLL
  for (int i = 0; i < kCount; ++i) out[i] = from.r[i];
}
template <int kCount>
MXCHECK_SM100_DEVICE void read(Fragment<kCount>& to, const u32* in) {
  MXCHECK_SM100_UNROLL
  for (int i = 0; i < kCount; ++i) to.r[i] = in[i];
}
#define ACCESS(SHAPE, NUM, SUFFIX, PACK)                                       \
  FORM tmem_ld__##SHAPE##_x##NUM##SUFFIX(TmemAddress address, u32* out) {      \
    TmemFragment<TmemShape::lanes##SHAPE, NUM> f;                              \
    tmem_ld<TmemShape::lanes##SHAPE, NUM, PACK>(f, address);                   \
    tmem_wait_ld(f);                                                           \
    write(f, out);                                                             \
  }                                                                            \
  FORM tmem_st__##SHAPE##_x##NUM##SUFFIX(TmemAddress address, const u32* in) { \
    TmemFragment<TmemShape::lanes##SHAPE, NUM> f;                              \
    read(f, in);                                                               \
    tmem_st<TmemShape::lanes##SHAPE, NUM, PACK>(address, f);                   \
  }
#define TO_X32(SHAPE)        \
  ACCESS(SHAPE, 1, , false)  \
  ACCESS(SHAPE, 2, , false)  \
  ACCESS(SHAPE, 4, , false)  \
  ACCESS(SHAPE, 8, , false)  \
  ACCESS(SHAPE, 16, , false) \
  ACCESS(SHAPE, 32, , false)
TO_X32(32x32b)
ACCESS(32x32b, 64, , false)
ACCESS(32x32b, 128, , false)
TO_X32(16x64b)
ACCESS(16x64b, 64, , false)
ACCESS(16x64b, 128, , false)
TO_X32(16x128b)
ACCESS(16x128b, 64, , false)
TO_X32(16x256b)
ACCESS(32x32b, 8, _16b, true)
ACCESS(16x64b, 8, _16b, true)
ACCESS(16x128b, 8, _16b, true)
ACCESS(16x256b, 8, _16b, true)
#define HALVES(NUM, SPLIT)                                                    \
  FORM tmem_ld_halves__x##NUM##_##SPLIT(TmemAddress address, u32* out) {      \
    Fragment<NUM> f;                                                          \
    tmem_ld_halves<NUM, SPLIT>(f, address);                                   \
    tmem_wait_ld(f);                                                          \
    write(f, out);                                                            \
  }                                                                           \
  FORM tmem_st_halves__x##NUM##_##SPLIT(TmemAddress address, const u32* in) { \
    Fragment<NUM> f;                                                          \
    read(f, in);                                                              \
    tmem_st_halves<NUM, SPLIT>(address, f);                                   \
  }
HALVES(1, 16)
HALVES(2, 16)
HALVES(4, 16)
HALVES(8, 16)
HALVES(16, 32)
HALVES(32, 64)
HALVES(64, 128)
HALVES(128, 256)
FORM tmem_wait_ld__two(TmemAddress address, TmemAddress other, u32* out) {
  Fragment<4> f;
  Fragment<2> g;
  tmem_ld<TmemShape::lanes32x32b, 4>(f, address);
  tmem_ld<TmemShape::lanes32x32b, 2>(g, other);
  tmem_wait_ld(f, g);
  write(f, out);
  write(g, out + 4);
}
FORM tmem_wait_st__() { tmem_wait_st(); }
FORM fence_before_thread_sync__() { fence_before_thread_sync(); }
FORM fence_after_thread_sync__() { fence_after_thread_sync(); }

// --- mma.h
#define MMA_FP4(KIND, G)                                                                                               \
  FORM mma_fp4__##KIND##_##G(TmemAddress d, u64 a, u64 b, u32 instruction, TmemAddress scales_a, TmemAddress scales_b, \
                             u32 accumulate) {                                                                         \
    mma_fp4<MmaKind::KIND, G>(d, {a}, {b}, {instruction}, scales_a, scales_b, accumulate != 0);                        \
  }
#define MMA(G)                                                                                                         \
  FORM mma_block_scaled__##G(TmemAddress d, u64 a, u64 b, u32 instruction, TmemAddress scales_a, TmemAddress scales_b, \
                             u32 accumulate) {                                                                         \
    mma_block_scaled<G>(d, {a}, {b}, {instruction}, scales_a, scales_b, accumulate != 0);                              \
  }                                                                                                                    \
  MMA_FP4(mxf4, G)                                                                                                     \
  MMA_FP4(mxf4nvf4_block32, G)                                                                                         \
  MMA_FP4(mxf4nvf4_block16, G)                                                                                         \
  FORM mma_f8f6f4__##G(TmemAddress d, u64 a, u64 b, u32 instruction, u32 accumulate) {                                 \
    mma_f8f6f4<G>(d, {a}, {b}, {instruction}, accumulate != 0);                                                        \
  }                                                                                                                    \
  FORM mma_f16__##G(TmemAddress d, u64 a, u64 b, u32 instruction, u32 accumulate) {                                    \
    mma_f16<G>(d, {a}, {b}, {instruction}, accumulate != 0);                                                           \
  }                                                                                                                    \
  FORM cp__32x128b_warpx4_##G(TmemAddress to, u64 from) { cp<CpShape::rows32x128b_warpx4, G>(to, {from}); }            \
  FORM cp__128x128b_##G(TmemAddress to, u64 from) { cp<CpShape::rows128x128b, G>(to, {from}); }                        \
  FORM cp__128x256b_##G(TmemAddress to, u64 from) { cp<CpShape::rows128x256b, G>(to, {from}); }                        \
  FORM cp__4x256b_##G(TmemAddress to, u64 from) { cp<CpShape::rows4x256b, G>(to, {from}); }                            \
  FORM cp__64x128b_02_13_##G(TmemAddress to, u64 from) { cp<CpShape::rows64x128b_02_13, G>(to, {from}); }              \
  FORM cp__64x128b_01_23_##G(TmemAddress to, u64 from) { cp<CpShape::rows64x128b_01_23, G>(to, {from}); }              \
  FORM commit__##G(SharedAddress barrier) { commit<G>(barrier); }                                                      \
  FORM commit_multicast__##G(SharedAddress barrier, std::uint16_t mask) { commit_multicast<G>(barrier, mask); }
MMA(1)
MMA(2)

// --- descriptor.h: what its functions are on a device
FORM descriptor__(TmemAddress d, TmemAddress scales_a, TmemAddress scales_b) {
  constexpr InstructionDescriptor kInstruction =
      instruction_descriptor<ScaledInstruction{.m = 256, .n = 256, .cta_group = 2}>();
  const SharedDescriptor a = shared_descriptor<k_major(Swizzle::b128)>(0x400);
  mma_block_scaled<2>(d, a, advance(a, 32), with_scale_ids(kInstruction, 1, 1), scales_a, scales_b, true);
}

// --- numbers.h
FORM pack_ue8m0__(float low, float high, u32* out) { out[0] = pack_ue8m0(low, high); }
FORM add2__(float ax, float ay, float bx, float by, float* out) {
  const Float2 d = add2({ax, ay}, {bx, by});
  out[0] = d.x;
  out[1] = d.y;
}
FORM mul2__(float ax, float ay, float bx, float by, float* out) {
  const Float2 d = mul2({ax, ay}, {bx, by});
  out[0] = d.x;
  out[1] = d.y;
}
FORM fma2__(float ax, float ay, float bx, float by, float cx, float cy, float* out) {
  const Float2 d = fma2({ax, ay}, {bx, by}, {cx, cy});
  out[0] = d.x;
  out[1] = d.y;
}
FORM max3__(float a, float b, float c, float* out) { out[0] = max3(a, b, c); }
FORM ld_global__(const void* from, u32* out) {
  const Words8 v = ld_global(from);
  for (int i = 0; i < 8; ++i) out[i] = v.w[i];
}
FORM st_global__(void* to, const u32* in) {
  Words8 v;
  for (int i = 0; i < 8; ++i) v.w[i] = in[i];
  st_global(to, v);
}
