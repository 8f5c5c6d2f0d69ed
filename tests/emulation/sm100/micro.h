#pragma once
// Micro-kernels: a few instructions, run under every schedule, and what is found in them. And their common parts:
// launch shapes, barriers, columns, and the operands of one small MMA, all ones, written by warp 0 through the generic
// proxy.
//
//   expect_right({.shared_bytes = 8192}, [] { ... });
//   expect_fault(kTwoWarps, Hazard::not_complete, {"warp 1", "column 0, lane 32", "a commit"}, [] { ... });

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulation/sm100/launch.h"
#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"

namespace mxcheck::sm100::test {

using emulation::sm100::Finding, emulation::sm100::Hazard, emulation::sm100::LaunchOptions;
using emulation::sm100::LaunchResult, emulation::sm100::LaunchShape;
using Schedule = emulation::sm100::Schedule;
using emulation::sm100::launch;
using Kernel = std::function<void()>;

inline constexpr std::uint64_t kSeeds = 20;

inline std::string text_of(const LaunchResult& result) {
  std::string text = result.completed ? "" : "not completed\n" + result.dump;
  for (const Finding& f : result.findings) text += emulation::sm100::text_of(f) + "\n";
  return text;
}

inline std::vector<LaunchOptions> all_schedules() {
  std::vector<LaunchOptions> all{{.schedule = Schedule::eager}, {.schedule = Schedule::lazy}};
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) all.push_back({.schedule = Schedule::random, .seed = seed});
  return all;
}

inline std::string name_of(const LaunchOptions& options) {
  return std::string(emulation::sm100::name_of(options.schedule)) + ", seed " + std::to_string(options.seed);
}

// No findings under any schedule; `check` looks at what the kernel left.
inline void expect_right(
    const LaunchShape& shape, const Kernel& kernel, const std::function<void()>& check = [] {}) {
  for (const LaunchOptions& options : all_schedules()) {
    const LaunchResult result = emulation::sm100::launch(shape, options, kernel);
    ASSERT_TRUE(result.completed && result.findings.empty()) << name_of(options) << "\n" << text_of(result);
    check();
    ASSERT_FALSE(testing::Test::HasFailure()) << name_of(options);
  }
}

// The hazard is found under that schedule, in one finding that has all of `words` and says what would be right.
inline void expect_fault_under(const LaunchOptions& options, const LaunchShape& shape, Hazard hazard,
                               std::initializer_list<std::string_view> words, const Kernel& kernel) {
  const LaunchResult result = emulation::sm100::launch(shape, options, kernel);
  const bool found = std::ranges::any_of(result.findings, [&](const Finding& f) {
    const std::string text = emulation::sm100::text_of(f);
    return f.hazard == hazard && !f.who.empty() && !f.instruction.empty() && !f.what.empty() && !f.right.empty() &&
           std::ranges::all_of(words, [&](std::string_view w) { return text.find(w) != std::string::npos; });
  });
  std::string wanted(name_of(hazard));
  for (const std::string_view w : words) wanted += " \"" + std::string(w) + "\"";
  EXPECT_TRUE(found) << name_of(options) << ": no " << wanted << " among\n" << text_of(result);
}

// Under the two schedules that take warps in turn: what is found does not hang on when operations happen.
inline void expect_fault(const LaunchShape& shape, Hazard hazard, std::initializer_list<std::string_view> words,
                         const Kernel& kernel, LaunchOptions options = {}) {
  for (const Schedule schedule : {Schedule::eager, Schedule::lazy}) {
    options.schedule = schedule;
    expect_fault_under(options, shape, hazard, words, kernel);
  }
}

// --- tensor memory

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

// The first thread of each CTA initializes barriers with these counts.
inline void init_barriers(const std::vector<unsigned>& counts, bool fences = true) {
  if (thread_index() != 0) return;
  unsigned i = 0;
  for (const unsigned count : counts) barrier_init(barrier(i++), count);
  if (fences) fence_barrier_init();
}

// They are initialized; then every thread runs `rest`.
inline Kernel with_barriers(std::vector<unsigned> counts, std::function<void()> rest, bool fences = true) {
  return [counts = std::move(counts), rest = std::move(rest), fences] {
    init_barriers(counts, fences);
    cluster_sync();
    rest();
    cluster_sync();
  };
}

template <Scope kScope>
void wait_and_fence(SharedAddress at, unsigned parity) {
  barrier_wait<kScope>(at, parity);
  fence_after_thread_sync();
}

// Waits, fences, and closes.
template <Scope kScope, int kGroup = 1>
void close_after(SharedAddress at, unsigned parity, TmemAddress tmem) {
  wait_and_fence<kScope>(at, parity);
  close<kGroup>(tmem);
}

// By one lane, for which the warp waits.
template <class F>
void by_elected(const F& issue) {
  if (elect()) issue();
  sync_warp();
}

// The kernel with these arguments.
template <class F, class... Arguments>
Kernel with(const F& kernel, Arguments... arguments) {
  return std::bind_front(kernel, arguments...);
}

// kernel(true) is right, and kernel(false), which leaves a step out, has this fault.
template <class F>
void expect_needed(const LaunchShape& shape, const F& kernel, Hazard hazard,
                   std::initializer_list<std::string_view> words) {
  expect_right(shape, with(kernel, true));
  expect_fault(shape, hazard, words, with(kernel, false));
}

}  // namespace mxcheck::sm100::test
