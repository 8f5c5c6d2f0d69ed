// The CPU bodies of kernels/sm100/tcgen05: which function of the emulation each calls, with which arguments. The
// emulation is replaced by functions that write down their call, so this is a program of its own.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/shared.h"
#include "kernels/sm100/tcgen05/tma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"

namespace {

std::string calls;

std::string text(const char* value) { return value; }
template <class T>
std::string text(std::span<T> values) {
  std::string all = "{";
  for (const auto value : values) all += (all.size() > 1 ? " " : "") + std::to_string(value);
  return all + "}";
}
template <class T>
std::string text(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return std::to_string(reinterpret_cast<std::uintptr_t>(value));
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<int>(value));
  } else {
    return std::to_string(value);
  }
}

// Appends "name(a, b);".
template <class... Arguments>
void note(const char* name, const Arguments&... arguments) {
  calls += name;
  calls += '(';
  [[maybe_unused]] const char* before = "";
  ((calls += before + text(arguments), before = ", "), ...);
  calls += ");";
}

}  // namespace

namespace mxcheck::emulation::sm100 {

#define MXCHECK_GIVES(NAME, VALUE) \
  unsigned NAME() { return VALUE; }
MXCHECK_GIVES(thread_index, 77)
MXCHECK_GIVES(block_threads, 192)
MXCHECK_GIVES(block_index, 5)
MXCHECK_GIVES(grid_blocks, 9)
MXCHECK_GIVES(cluster_rank, 3)
MXCHECK_GIVES(cluster_blocks, 4)
#undef MXCHECK_GIVES
#define MXCHECK_NOTES(NAME) \
  void NAME() { note(#NAME); }
MXCHECK_NOTES(sync_warp)
MXCHECK_NOTES(sync_block)
MXCHECK_NOTES(cluster_arrive)
MXCHECK_NOTES(cluster_wait)
MXCHECK_NOTES(grid_dependency_wait)
MXCHECK_NOTES(grid_dependency_launch)
MXCHECK_NOTES(fence_proxy_async)
MXCHECK_NOTES(fence_barrier_init)
MXCHECK_NOTES(bulk_commit_group)
MXCHECK_NOTES(tmem_wait_ld)
MXCHECK_NOTES(tmem_wait_st)
MXCHECK_NOTES(fence_before_thread_sync)
MXCHECK_NOTES(fence_after_thread_sync)
#undef MXCHECK_NOTES

void role(const char* name) { note("role", name); }
bool elect() { return true; }
std::uint32_t shuffle(std::uint32_t value, unsigned lane) { return 100 * value + lane; }
void sync_named(unsigned barrier, unsigned threads) { note("sync_named", barrier, threads); }
void set_registers(unsigned count, bool increases) { note("set_registers", count, increases); }
std::uint32_t shared_base() { return 1024; }
std::uint32_t map_shared_rank(std::uint32_t address, unsigned rank) { return 100 * address + rank; }
void load_shared(std::uint32_t address, void* to, std::size_t bytes) {
  note("load_shared", address, bytes);
  std::memset(to, 0x11, bytes);
}
void store_shared(std::uint32_t address, const void* from, std::size_t bytes) {
  std::uint32_t first = 0;
  std::memcpy(&first, from, sizeof(first));
  note("store_shared", address, first, bytes);
}
void barrier_init(std::uint32_t barrier, unsigned count) { note("barrier_init", barrier, count); }
void barrier_invalidate(std::uint32_t barrier) { note("barrier_invalidate", barrier); }
void barrier_arrive(std::uint32_t barrier, Scope scope) { note("barrier_arrive", barrier, scope); }
void barrier_arrive_expect(std::uint32_t barrier, unsigned bytes, Scope scope) {
  note("barrier_arrive_expect", barrier, bytes, scope);
}
void barrier_wait(std::uint32_t barrier, unsigned parity, Scope scope) { note("barrier_wait", barrier, parity, scope); }
void tma_load(const TmaLoad& l) { note("tma_load", l.to, l.map, l.at, l.barrier, l.cta_group, l.multicast); }
void tma_gather4(const TmaGather4& l) {
  note("tma_gather4", l.to, l.map, l.x, std::span<const std::int32_t>(l.rows), l.barrier, l.cta_group);
}
void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t barrier, std::uint16_t multicast) {
  note("bulk_load", to, from, bytes, barrier, multicast);
}
void tma_store(const TensorMap* map, std::span<const std::int32_t> at, std::uint32_t from) {
  note("tma_store", map, at, from);
}
void bulk_store(void* to, std::uint32_t from, unsigned bytes) { note("bulk_store", to, from, bytes); }
void bulk_wait_group(unsigned pending, bool reads_only) { note("bulk_wait_group", pending, reads_only); }
void tmem_alloc(int cta_group, std::uint32_t slot, unsigned columns) { note("tmem_alloc", cta_group, slot, columns); }
void tmem_dealloc(int cta_group, std::uint32_t address, unsigned columns) {
  note("tmem_dealloc", cta_group, address, columns);
}
void tmem_relinquish(int cta_group) { note("tmem_relinquish", cta_group); }
void tmem_ld(TmemShape shape, unsigned num, bool pack16, std::uint32_t address, std::span<std::uint32_t> registers,
             unsigned half_split) {
  note("tmem_ld", shape, num, pack16, address, registers.size(), half_split);
  for (std::size_t i = 0; i < registers.size(); ++i) registers[i] = static_cast<std::uint32_t>(i);
}
void tmem_st(TmemShape shape, unsigned num, bool unpack16, std::uint32_t address,
             std::span<const std::uint32_t> registers, unsigned half_split) {
  note("tmem_st", shape, num, unpack16, address, registers, half_split);
}
void mma(const Mma& m) {
  note("mma", m.kind, m.cta_group, m.d, m.a, m.b, m.instruction, m.scales_a, m.scales_b, m.accumulate);
}
void cp(CpShape shape, int cta_group, std::uint32_t to, std::uint64_t descriptor) {
  note("cp", shape, cta_group, to, descriptor);
}
void commit(int cta_group, std::uint32_t barrier, std::uint16_t multicast) {
  note("commit", cta_group, barrier, multicast);
}
void try_cancel(std::uint32_t response, std::uint32_t barrier, bool multicast) {
  note("try_cancel", response, barrier, multicast);
}
bool is_canceled(const ClcResponse& response) { return response.low == 0x1111111111111111; }
std::uint32_t first_block(const ClcResponse& response) { return response.high == 0x1111111111111111 ? 42 : 0; }

}  // namespace mxcheck::emulation::sm100

namespace mxcheck::sm100 {
namespace {

// The calls that a piece of code makes, as text.
template <class Code>
std::string calls_of(Code code) {
  calls.clear();
  code();
  return calls;
}

const TensorMap* const kMap = nullptr;

TEST(Calls, of_threads_and_blocks) {
  EXPECT_EQ(thread_index(), 77u);
  EXPECT_EQ(lane_index(), 13u);
  EXPECT_EQ(warp_index(), 2u);
  EXPECT_EQ(block_threads(), 192u);
  EXPECT_EQ(block_index(), 5u);
  EXPECT_EQ(grid_blocks(), 9u);
  EXPECT_TRUE(elect());
  EXPECT_EQ(shuffle(7, 3), 703u);
  EXPECT_EQ(calls_of([] { role("load"); }), "role(load);");
  EXPECT_EQ(calls_of([] { sync_warp(), sync_block(), sync_named(2, 128); }),
            "sync_warp();sync_block();sync_named(2, 128);");
  EXPECT_EQ(calls_of([] { set_max_registers<232, true>(), set_max_registers<40, false>(); }),
            "set_registers(232, 1);set_registers(40, 0);");
  EXPECT_EQ(calls_of([] { grid_dependency_wait(), grid_dependency_launch(); }),
            "grid_dependency_wait();grid_dependency_launch();");
}

TEST(Calls, of_shared_memory) {
  EXPECT_EQ(shared_base(), 1024u);
  EXPECT_EQ(calls_of([] { EXPECT_EQ(load_shared<std::uint32_t>(16), 0x11111111u); }), "load_shared(16, 4);");
  EXPECT_EQ(calls_of([] { EXPECT_EQ(load_shared<std::uint64_t>(16), 0x1111111111111111u); }), "load_shared(16, 8);");
  EXPECT_EQ(calls_of([] { store_shared(16, 5u), store_shared(24, std::uint64_t{6}); }),
            "store_shared(16, 5, 4);store_shared(24, 6, 8);");
  EXPECT_EQ(calls_of([] { fence_proxy_async(); }), "fence_proxy_async();");
}

TEST(Calls, of_barriers) {
  EXPECT_EQ(calls_of([] { barrier_init(8, 2), barrier_invalidate(16), fence_barrier_init(); }),
            "barrier_init(8, 2);barrier_invalidate(16);fence_barrier_init();");
  EXPECT_EQ(calls_of([] { barrier_arrive<Scope::cta>(8), barrier_arrive<Scope::cluster>(16); }),
            "barrier_arrive(8, 0);barrier_arrive(16, 1);");
  EXPECT_EQ(calls_of([] { barrier_arrive_expect<Scope::cta>(8, 64), barrier_arrive_expect<Scope::cluster>(16, 32); }),
            "barrier_arrive_expect(8, 64, 0);barrier_arrive_expect(16, 32, 1);");
  EXPECT_EQ(calls_of([] { barrier_wait<Scope::cta>(8, 1), barrier_wait<Scope::cluster>(16, 0); }),
            "barrier_wait(8, 1, 0);barrier_wait(16, 0, 1);");
}

TEST(Calls, of_clusters) {
  EXPECT_EQ(cluster_rank(), 3u);
  EXPECT_EQ(cluster_blocks(), 4u);
  EXPECT_EQ(map_to_rank(7, 2), 702u);
  EXPECT_EQ(calls_of([] { cluster_sync(); }), "cluster_arrive();cluster_wait();");
  EXPECT_EQ(pair_leader(5), 4u);
  EXPECT_EQ(pair_leader(4), 4u);
  EXPECT_EQ(multicast_mask(1, 3), 0b1110);
  EXPECT_EQ(multicast_mask(0, 16), 0xFFFF);
  EXPECT_EQ(pair_mask(0), 0b11);
  EXPECT_EQ(pair_mask(3), 0b1100);
}

TEST(Calls, of_launch_control) {
  EXPECT_EQ(calls_of([] { try_cancel(32, 8), try_cancel_multicast(48, 16); }),
            "try_cancel(32, 8, 0);try_cancel(48, 16, 1);");
  EXPECT_EQ(calls_of([] {
              const LaunchGrant grant = query_cancel(32);
              EXPECT_TRUE(grant.granted);
              EXPECT_EQ(grant.block, 42u);
            }),
            "load_shared(32, 16);");
}

TEST(Calls, of_tma) {
  EXPECT_EQ(calls_of([] { prefetch_map(kMap); }), "");
  EXPECT_EQ(calls_of([] { tma_load(1024, kMap, 8, 3, 4); }), "tma_load(1024, 0, {3 4}, 8, 0, 0);");
  EXPECT_EQ(calls_of([] { tma_load<2>(1024, kMap, 8, 3, 4, 5); }), "tma_load(1024, 0, {3 4 5}, 8, 2, 0);");
  EXPECT_EQ(calls_of([] { tma_load_multicast<1>(1024, kMap, 8, 6, 3, 4); }), "tma_load(1024, 0, {3 4}, 8, 1, 6);");
  EXPECT_EQ(calls_of([] { tma_load_multicast(1024, kMap, 8, 6, 3, 4, 5); }), "tma_load(1024, 0, {3 4 5}, 8, 0, 6);");
  EXPECT_EQ(calls_of([] { tma_gather4(1024, kMap, 8, 3, 4, 5, 6, -1); }), "tma_gather4(1024, 0, 3, {4 5 6 -1}, 8, 0);");
  EXPECT_EQ(calls_of([] { tma_gather4<2>(1024, kMap, 8, 3, 6, 5, 4, 7); }),
            "tma_gather4(1024, 0, 3, {6 5 4 7}, 8, 2);");
  EXPECT_EQ(calls_of([] { bulk_load(1024, nullptr, 64, 8); }), "bulk_load(1024, 0, 64, 8, 0);");
  EXPECT_EQ(calls_of([] { bulk_load_multicast(1024, nullptr, 64, 8, 6); }), "bulk_load(1024, 0, 64, 8, 6);");
  EXPECT_EQ(calls_of([] { tma_store(kMap, 1024, 3, 4), tma_store(kMap, 1024, 3, 4, 5); }),
            "tma_store(0, {3 4}, 1024);tma_store(0, {3 4 5}, 1024);");
  EXPECT_EQ(calls_of([] { bulk_store(nullptr, 1024, 64), bulk_commit_group(); }),
            "bulk_store(0, 1024, 64);bulk_commit_group();");
  EXPECT_EQ(calls_of([] { bulk_wait_group<1>(), bulk_wait_group_read<2>(); }),
            "bulk_wait_group(1, 0);bulk_wait_group(2, 1);");
}

TEST(Calls, of_tensor_memory) {
  EXPECT_EQ(calls_of([] { tmem_alloc<2, 256>(64), tmem_relinquish<2>(), tmem_dealloc<1, 32>(128); }),
            "tmem_alloc(2, 64, 256);tmem_relinquish(2);tmem_dealloc(1, 128, 32);");
  EXPECT_EQ(tmem_at(0x00100020, 32, 4), 0x00300024u);
  Fragment<8> f{};
  EXPECT_EQ(calls_of([&f] { tmem_ld<TmemShape::lanes16x256b, 2>(f, 96), tmem_wait_ld(f); }),
            "tmem_ld(3, 2, 0, 96, 8, 0);tmem_wait_ld();");
  EXPECT_EQ(f.r[7], 7u);
  EXPECT_EQ(calls_of([&f] { tmem_ld<TmemShape::lanes16x128b, 4, true>(f, 96); }), "tmem_ld(2, 4, 1, 96, 8, 0);");
  EXPECT_EQ(calls_of([&f] { tmem_ld_halves<8, 16>(f, 96); }), "tmem_ld(4, 8, 0, 96, 8, 16);");
  EXPECT_EQ(calls_of([&f] { tmem_st<TmemShape::lanes32x32b, 8>(96, f), tmem_wait_st(); }),
            "tmem_st(0, 8, 0, 96, {0 1 2 3 4 5 6 7}, 0);tmem_wait_st();");
  EXPECT_EQ(calls_of([&f] { tmem_st<TmemShape::lanes16x64b, 8, true>(96, f); }),
            "tmem_st(1, 8, 1, 96, {0 1 2 3 4 5 6 7}, 0);");
  EXPECT_EQ(calls_of([&f] { tmem_st_halves<8, 16>(96, f); }), "tmem_st(4, 8, 0, 96, {0 1 2 3 4 5 6 7}, 16);");
  EXPECT_EQ(calls_of([] { fence_before_thread_sync(), fence_after_thread_sync(); }),
            "fence_before_thread_sync();fence_after_thread_sync();");
}

TEST(Calls, of_tensor_cores) {
  EXPECT_EQ(calls_of([] { mma_block_scaled<2>(1, {2}, {3}, {4}, 5, 6, true); }), "mma(2, 2, 1, 2, 3, 4, 5, 6, 1);");
  EXPECT_EQ(calls_of([] { mma_fp4<MmaKind::mxf4nvf4_block16, 1>(1, {2}, {3}, {4}, 5, 6, false); }),
            "mma(5, 1, 1, 2, 3, 4, 5, 6, 0);");
  EXPECT_EQ(calls_of([] { mma_fp4<MmaKind::mxf4, 2>(1, {2}, {3}, {4}, 5, 6, true); }),
            "mma(3, 2, 1, 2, 3, 4, 5, 6, 1);");
  EXPECT_EQ(calls_of([] { mma_f8f6f4<1>(1, {2}, {3}, {4}, false); }), "mma(1, 1, 1, 2, 3, 4, 0, 0, 0);");
  EXPECT_EQ(calls_of([] { mma_f16<1>(1, {2}, {3}, {4}, true); }), "mma(0, 1, 1, 2, 3, 4, 0, 0, 1);");
  EXPECT_EQ(calls_of([] { cp<CpShape::rows32x128b_warpx4, 2>(7, {8}), cp<CpShape::rows64x128b_01_23, 1>(7, {8}); }),
            "cp(0, 2, 7, 8);cp(5, 1, 7, 8);");
  EXPECT_EQ(calls_of([] { commit<1>(8), commit_multicast<2>(8, 3); }), "commit(1, 8, 0);commit(2, 8, 3);");
}

}  // namespace
}  // namespace mxcheck::sm100
