#pragma once
// The fixture of all probes' kernels, on the thin layer (tcgen05/): an image of shared memory written through the
// generic proxy, 512 columns of tensor memory, one mbarrier for commits. A CTA is kThreads threads.

#include "kernels/sm100/probe/launcher.h"
#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/mma.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"

// Kernels and probes are compiled twice, into one program: with the emulation's bodies and for a card. Each has names
// of its own, so that the linker does not take one for the other.
#if MXCHECK_SM100_EMULATED
  #define MXCHECK_SM100_PROBE_BODY on_the_emulation
#elif MXCHECK_SM100_ON_SM90
  #include "emulation/on_sm90/run.cuh"
  #define MXCHECK_SM100_PROBE_BODY on_sm90
#else
  #define MXCHECK_SM100_PROBE_BODY on_the_device
#endif

namespace mxcheck::sm100::probe {
inline namespace MXCHECK_SM100_PROBE_BODY {

struct Words4 {
  std::uint32_t w[4];
};

// Places in shared memory, from shared_base() on.
inline constexpr unsigned kSlot = 0;
inline constexpr unsigned kDone = 64;  // a commit's barrier
inline constexpr unsigned kImageAt = 1024;
inline constexpr unsigned kColumns = 512;

// The first and the last of every kernel: where software stands for the tensor core, its threads are behind begin()
// until all that they do is over. Elsewhere nothing.
MXCHECK_SM100_DEVICE void begin([[maybe_unused]] const Arguments& a) {
#if MXCHECK_SM100_ON_SM90
  emulation::on_sm90::enter(*static_cast<const emulation::on_sm90::Launch*>(a.engine), kThreads);
#endif
}
MXCHECK_SM100_DEVICE void end() {
#if MXCHECK_SM100_ON_SM90
  emulation::on_sm90::leave();
#endif
}

template <int kGroup>
MXCHECK_SM100_DEVICE void sync_all() {
  if constexpr (kGroup == 2) {
    cluster_sync();
  } else {
    sync_block();
  }
}

template <int kGroup>
MXCHECK_SM100_DEVICE unsigned rank_in_pair() {
  if constexpr (kGroup == 2) return cluster_rank();
  return 0;
}

template <int kGroup>
inline constexpr Scope kScope = kGroup == 2 ? Scope::cluster : Scope::cta;

// tcgen05.fence on both sides of a barrier of all threads.
template <int kGroup>
MXCHECK_SM100_DEVICE void sync_tensor() {
  fence_before_thread_sync();
  sync_all<kGroup>();
  fence_after_thread_sync();
}

// By all threads. Returns where tensor memory begins.
template <int kGroup>
MXCHECK_SM100_DEVICE TmemAddress open(const Arguments& a) {
  begin(a);
  const SharedAddress base = shared_base();
  const std::uint32_t* image = a.image + static_cast<std::size_t>(rank_in_pair<kGroup>()) * (a.image_bytes / 4);
  for (unsigned i = 16 * thread_index(); i < a.image_bytes; i += 16 * kThreads) {
    const std::uint32_t* from = image + i / 4;
    store_shared(base + kImageAt + i, Words4{{from[0], from[1], from[2], from[3]}});
  }
  fence_proxy_async();
  if (warp_index() == 0) {
    if (elect()) {
      barrier_init(base + kDone, 1);
      fence_barrier_init();
    }
    sync_warp();
  }
  sync_all<kGroup>();
  if (warp_index() == 0) {
    tmem_alloc<kGroup, kColumns>(base + kSlot);
    tmem_relinquish<kGroup>();
  }
  sync_tensor<kGroup>();
  return load_shared<std::uint32_t>(base + kSlot);
}

template <int kGroup>
MXCHECK_SM100_DEVICE void close(TmemAddress tmem) {
  sync_tensor<kGroup>();
  if (warp_index() == 0) tmem_dealloc<kGroup, kColumns>(tmem);
  end();
}

// `issue` by one thread, of the leader where there is a pair; then a commit that all threads wait for, the commit
// number `i` of the kernel. Before the next, a barrier of all threads: a wait knows a phase by its parity.
template <int kGroup, class Issue>
MXCHECK_SM100_DEVICE void issue_and_wait(unsigned i, const Issue& issue) {
  const SharedAddress done = shared_base() + kDone;
  if (warp_index() == 0 && rank_in_pair<kGroup>() == 0) {
    if (elect()) {
      issue();
      if constexpr (kGroup == 2) {
        commit_multicast<2>(done, pair_mask(0));
      } else {
        commit<1>(done);
      }
    }
    sync_warp();
  }
  barrier_wait<kScope<kGroup>>(done, i & 1U);
  sync_warp();  // its threads may leave the wait one by one; what follows is of whole warps
  fence_after_thread_sync();
}

// This warp's lanes.
MXCHECK_SM100_DEVICE TmemAddress slab(TmemAddress at) { return tmem_at(at, warp_index() % 4 * 32, 0); }

// `columns`, a multiple of 4, from `at` on, into out[column][128 lanes].
MXCHECK_SM100_DEVICE void read_cells(TmemAddress at, unsigned columns, std::uint32_t* out) {
  for (unsigned c = 0; c < columns; c += 4) {
    Fragment<4> cells;
    tmem_ld<TmemShape::lanes32x32b, 4>(cells, slab(at) + c);
    tmem_wait_ld(cells);
    MXCHECK_SM100_UNROLL
    for (unsigned i = 0; i < 4; ++i) out[(c + i) * 128 + thread_index()] = cells.r[i];
  }
}
MXCHECK_SM100_DEVICE void write_cells(TmemAddress at, unsigned columns, const std::uint32_t* from) {
  for (unsigned c = 0; c < columns; c += 4) {
    Fragment<4> cells;
    MXCHECK_SM100_UNROLL
    for (unsigned i = 0; i < 4; ++i) cells.r[i] = from[(c + i) * 128 + thread_index()];
    tmem_st<TmemShape::lanes32x32b, 4>(slab(at) + c, cells);
  }
  tmem_wait_st();
}

// A thread's mismatches over many repetitions, whose words the kernel compares, as they are too many to bring back.
struct Mismatches {
  std::uint32_t count = 0;
  std::uint32_t word = 0, column = 0, repetition = 0;  // of the first
};
inline constexpr std::size_t kMismatchWords = 4 * kThreads;

// 128 columns of D with expected[column][128 lanes].
MXCHECK_SM100_DEVICE void compare_cells(TmemAddress d, const std::uint32_t* expected, std::uint32_t repetition,
                                        Mismatches& mismatches) {
  for (unsigned c = 0; c < 128; c += 32) {
    Fragment<32> cells;
    tmem_ld<TmemShape::lanes32x32b, 32>(cells, slab(d) + c);
    tmem_wait_ld(cells);
    MXCHECK_SM100_UNROLL
    for (unsigned i = 0; i < 32; ++i) {
      // Selections, not branches: the next load needs the warp together.
      const bool wrong = cells.r[i] != expected[(c + i) * 128 + thread_index()];
      const bool first = wrong && mismatches.count == 0;
      mismatches.word = first ? cells.r[i] : mismatches.word;
      mismatches.column = first ? c + i : mismatches.column;
      mismatches.repetition = first ? repetition : mismatches.repetition;
      mismatches.count += wrong ? 1 : 0;
    }
  }
}
MXCHECK_SM100_DEVICE void write_mismatches(const Mismatches& mismatches, std::uint32_t* out) {
  const unsigned t = thread_index();
  out[t] = mismatches.count;
  out[kThreads + t] = mismatches.word;
  out[2 * kThreads + t] = mismatches.column;
  out[3 * kThreads + t] = mismatches.repetition;
}

// --- host
inline std::size_t total(const Outcome& outcome) {
  std::size_t sum = 0;
  if (outcome.out.size() < kMismatchWords) return sum;
  for (unsigned t = 0; t < kThreads; ++t) sum += outcome.out[t];
  return sum;
}
inline void add_first_mismatch(Report& report, const Outcome& outcome, const std::vector<std::uint32_t>& expected) {
  for (unsigned t = 0; total(outcome) != 0 && t < kThreads; ++t) {
    if (outcome.out[t] == 0) continue;
    const std::uint32_t column = outcome.out[2 * kThreads + t];
    report.add_evidence("first wrong word of lane " + std::to_string(t),
                        hex(outcome.out[kThreads + t]) + ", right " + hex(expected[column * 128 + t]) + ", column " +
                            std::to_string(column) + ", repetition " + std::to_string(outcome.out[3 * kThreads + t]));
    return;
  }
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
