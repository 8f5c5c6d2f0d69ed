#pragma once
// Common parts of micro-kernels with tensor memory: launch shapes, barriers, columns, and the operands of one small
// MMA, all ones, written by warp 0 through the generic proxy.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {

struct Words4 {
  std::uint32_t w[4];
};

// Places in shared memory, from shared_base() on.
inline constexpr unsigned kBarriers = 64;  // 8 bytes each; the slot of tcgen05.alloc is before them
inline constexpr unsigned kA = 1024;       // 128 rows of 32 bytes, K-major, swizzled by 32
inline constexpr unsigned kB = kA + 4096;  // up to 32 rows
inline constexpr unsigned kScalesA = kB + 1024;
inline constexpr unsigned kScalesB = kScalesA + 512;
inline constexpr unsigned kSmallBytes = kScalesB + 512;

inline constexpr LaunchShape kOneWarp{.threads = 32, .shared_bytes = kSmallBytes};
inline constexpr LaunchShape kTwoWarps{.threads = 64, .shared_bytes = kSmallBytes};
inline constexpr LaunchShape kFourWarps{.threads = 128, .shared_bytes = kSmallBytes};
inline constexpr LaunchShape kPair{.blocks = 2, .threads = 32, .cluster = 2, .shared_bytes = kSmallBytes};

inline constexpr unsigned kColumns = 64;              // that a CTA allocates: D first
inline constexpr unsigned kScaleColumn = 32;          // A's 4, then B's
inline constexpr std::uint32_t kOnes = 0x38383838;    // E4M3
inline constexpr std::uint32_t kScales = 0x7F7F7F7F;  // 2^0
inline constexpr std::uint32_t kSum32 = 0x42000000;   // 32.0F: what each element of D is

inline SharedAddress barrier(unsigned i) { return shared_base() + kBarriers + 8 * i; }

template <int kGroup>
void sync_all() {
  if constexpr (kGroup == 2) {
    cluster_sync();
  } else {
    sync_block();
  }
}

inline void fill(unsigned at, unsigned bytes, std::uint32_t word) {
  for (unsigned i = 16 * lane_index(); i < bytes; i += 16 * kWarpThreads) {
    store_shared(shared_base() + at + i, Words4{{word, word, word, word}});
  }
}

// By all threads: barriers with these counts, kColumns columns. Returns where they begin.
template <int kGroup = 1>
TmemAddress open(std::initializer_list<unsigned> counts) {
  if (warp_index() == 0) {
    if (elect()) {
      unsigned i = 0;
      for (const unsigned count : counts) barrier_init(barrier(i++), count);
      fence_barrier_init();
    }
    fill(kA, 4096, kOnes);
    fill(kB, 1024, kOnes);
    fill(kScalesA, 1024, kScales);
    fence_proxy_async();
    sync_warp();
  }
  sync_all<kGroup>();
  if (warp_index() == 0) {
    tmem_alloc<kGroup, kColumns>(shared_base());
    tmem_relinquish<kGroup>();
  }
  fence_before_thread_sync();
  sync_all<kGroup>();
  fence_after_thread_sync();
  return load_shared<std::uint32_t>(shared_base());
}
// By all threads, at the end.
template <int kGroup = 1>
void close(TmemAddress tmem) {
  fence_before_thread_sync();
  sync_all<kGroup>();
  fence_after_thread_sync();
  if (warp_index() == 0) tmem_dealloc<kGroup, kColumns>(tmem);
}

inline constexpr SharedLayout kRows32 = k_major(Swizzle::b32);
inline constexpr InstructionDescriptor kSmall = instruction_descriptor<ByteInstruction{.m = 128, .n = 16}>();
inline constexpr InstructionDescriptor kSmallScaled = instruction_descriptor<ScaledInstruction{.m = 128, .n = 16}>();

// The MMAs of a pair of CTAs: M = 256.
inline constexpr int kPairN = 32;
inline constexpr InstructionDescriptor kPairMma =
    instruction_descriptor<ByteInstruction{.m = 256, .n = kPairN, .cta_group = 2}>();
inline constexpr InstructionDescriptor kPairScaledMma =
    instruction_descriptor<ScaledInstruction{.m = 256, .n = kPairN, .cta_group = 2}>();

// The step of handing tensor memory over that a micro-kernel leaves out, or does too late.
enum class Left : std::uint8_t { nothing, wait, after, before, wait_ld, arrive_after_sync };

inline SharedDescriptor matrix(unsigned at) { return shared_descriptor<kRows32>(shared_base() + at); }
inline SharedDescriptor chunk(unsigned at) { return shared_descriptor<scale_chunk()>(shared_base() + at); }

inline void small_mma(TmemAddress d, bool accumulate = false) {
  mma_f8f6f4<1>(d, matrix(kA), matrix(kB), kSmall, accumulate);
}
inline void small_cp(TmemAddress tmem) {
  cp<CpShape::rows32x128b_warpx4, 1>(tmem + kScaleColumn, chunk(kScalesA));
  cp<CpShape::rows32x128b_warpx4, 1>(tmem + kScaleColumn + 4, chunk(kScalesB));
}
inline void small_scaled_mma(TmemAddress tmem, bool accumulate = false) {
  mma_block_scaled<1>(tmem, matrix(kA), matrix(kB), kSmallScaled, tmem + kScaleColumn, tmem + kScaleColumn + 4,
                      accumulate);
}

// This warp's lanes of a column.
inline TmemAddress slab(TmemAddress tmem, unsigned column = 0) { return tmem_at(tmem, warp_index() % 4 * 32, column); }

// The address that tcgen05.alloc wrote to a slot, once the CTA has met.
inline std::uint32_t slot_after_sync(unsigned at = 0) {
  sync_block();
  return load_shared<std::uint32_t>(shared_base() + at);
}

inline std::uint32_t load_column(TmemAddress at) {
  Fragment<1> word;
  tmem_ld<TmemShape::lanes32x32b, 1>(word, at);
  tmem_wait_ld(word);
  return word.r[0];
}

// A word that tells which cell of tensor memory it is of.
constexpr std::uint32_t cell_code(unsigned lane, unsigned column) { return 0xC0000000U | lane << 16 | column; }
// Four warps write what they own of lanes 0 to 127, columns 0 to 63, in one shape.
inline void store_codes(TmemAddress tmem) {
  Fragment<kColumns> words;
  for (unsigned c = 0; c < kColumns; ++c) words.r[c] = cell_code(thread_index(), c);
  tmem_st<TmemShape::lanes32x32b, kColumns>(slab(tmem), words);
  tmem_wait_st();
}

// --- barriers
//
// Micro-kernels that begin with initialized mbarriers.

// The first thread of each CTA initializes; then every thread runs `rest`.
inline Kernel with_barriers(std::initializer_list<unsigned> counts, std::function<void()> rest, bool fences = true) {
  return [counts = std::vector<unsigned>(counts), rest = std::move(rest), fences] {
    if (thread_index() == 0) {
      unsigned i = 0;
      for (const unsigned count : counts) barrier_init(barrier(i++), count);
      if (fences) fence_barrier_init();
    }
    cluster_sync();
    rest();
    cluster_sync();
  };
}

}  // namespace mxcheck::sm100::test
