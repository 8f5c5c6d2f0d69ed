#pragma once
// The eleven, of this translation unit's bodies; and the seventh, of the order that an mbarrier makes.

#include "tests/kernels/sm100/probe/address_probes.h"
#include "tests/kernels/sm100/probe/cp_probes.h"
#include "tests/kernels/sm100/probe/fixture.h"
#include "tests/kernels/sm100/probe/launcher.h"
#include "tests/kernels/sm100/probe/mma_probes.h"

namespace mxcheck::sm100::probe {

// --- probe 7
// 7. Is data seen late behind an arrival at another CTA's mbarrier whose scope is .cta, the default?
//
// A litmus: rank 1 stores eight words to global memory and arrives at rank 0's barrier; rank 0 waits and reads them.
// The PTX ISA orders the two only if the arrival says .release.cluster and the wait .acquire.cluster. Rank 0 has read
// the same lines the round before, so that they may be in its L1. Its answer goes back at cluster scope.

inline namespace MXCHECK_SM100_PROBE_BODY {

inline constexpr unsigned kFull = 64, kEmpty = 72;         // barriers of rank 0 and of rank 1
inline constexpr unsigned kDataWords = 8, kDataStep = 64;  // one word in every second line
inline constexpr std::uint32_t kDefaultScope = 1;          // Arguments::variant; 0: cluster

// The thin layer's form of this scope is of the own CTA's barriers alone.
MXCHECK_SM100_DEVICE void arrive_remote_at_cta_scope(SharedAddress barrier) {
#if MXCHECK_SM100_EMULATED
  barrier_arrive<Scope::cta>(barrier);
#else
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}
// Weak accesses, as a kernel's data are.
MXCHECK_SM100_DEVICE void store_data(std::uint32_t* to, std::uint32_t value) {
#if MXCHECK_SM100_EMULATED
  *to = value;
#else
  asm volatile("st.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value) : "memory");
#endif
}
MXCHECK_SM100_DEVICE std::uint32_t load_data(const std::uint32_t* from) {
#if MXCHECK_SM100_EMULATED
  return *from;
#else
  std::uint32_t value;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
  return value;
#endif
}

// Writes for each pair the number of stale words and the first one's age in rounds; the data lie behind all of those.
MXCHECK_SM100_KERNEL void remote_arrive(const MXCHECK_SM100_GRID_CONSTANT Arguments a) {
  begin(a);
  const SharedAddress base = shared_base();
  const unsigned rank = cluster_rank();
  const unsigned pair = block_index() / 2;
  std::uint32_t* data = a.out + grid_blocks() + std::size_t{pair} * kDataWords * kDataStep;
  if (warp_index() == 0) {
    if (elect()) {
      barrier_init(base + kFull, 1);
      barrier_init(base + kEmpty, 1);
      fence_barrier_init();
    }
    sync_warp();
  }
  cluster_sync();
  if (warp_index() == 0) {
    if (elect()) {
      std::uint32_t stale = 0, age = 0;
      for (std::uint32_t i = 0; i < a.count; ++i) {
        if (rank == 1) {
          if (i > 0) barrier_wait<Scope::cluster>(base + kEmpty, (i - 1) & 1U);
          for (unsigned w = 0; w < kDataWords; ++w) store_data(data + w * kDataStep, i + 1);
          const SharedAddress full = map_to_rank(base + kFull, 0);
          if (a.variant == kDefaultScope) {
            arrive_remote_at_cta_scope(full);
          } else {
            barrier_arrive<Scope::cluster>(full);
          }
        } else {
          if (a.variant == kDefaultScope) {
            barrier_wait<Scope::cta>(base + kFull, i & 1U);
          } else {
            barrier_wait<Scope::cluster>(base + kFull, i & 1U);
          }
          for (unsigned w = 0; w < kDataWords; ++w) {
            const std::uint32_t found = load_data(data + w * kDataStep);
            if (found != i + 1 && stale++ == 0) age = i + 1 - found;
          }
          barrier_arrive<Scope::cluster>(map_to_rank(base + kEmpty, 1));
        }
      }
      if (rank == 0) a.out[2 * pair] = stale, a.out[2 * pair + 1] = age;
    }
    sync_warp();
  }
  cluster_sync();  // no CTA ends before the last arrival at its barriers
  end();
}

// --- host
inline Report p07_remote_arrive_scope(Launcher& launcher) {
  Report report(7, "an arrival at another CTA's mbarrier at the default scope, .cta: are data behind it seen late?");
  const std::uint32_t rounds = launcher.repetitions(20, 100'000'000);
  const unsigned pairs = rounds >= 64'000 ? 64 : 1;  // side by side
  const auto run = [&](std::uint32_t variant) {
    return launcher.run({.kernel = &remote_arrive,
                         .blocks = 2 * pairs,
                         .cluster = 2,
                         .shared_bytes = 128,
                         .arguments = {.count = rounds / pairs, .variant = variant},
                         .out_words = std::size_t{pairs} * (2 + kDataWords * kDataStep),
                         .patience = 10});
  };
  const std::size_t words = std::size_t{rounds / pairs} * pairs * kDataWords;
  for (const std::uint32_t variant : {std::uint32_t{0}, kDefaultScope}) {
    const Outcome outcome = run(variant);
    std::size_t stale = 0;
    std::uint32_t age = 0;
    for (std::size_t p = 0; p < pairs && !outcome.out.empty(); ++p) {
      stale += outcome.out[2 * p];
      if (age == 0) age = outcome.out[2 * p + 1];
    }
    const std::string what = variant == 0 ? ".release.cluster and .acquire.cluster" : ".release.cta and .acquire.cta";
    const std::string found = counts(stale, words, "words were old");
    if (variant == 0) {
      expect_model(report, what, outcome, stale, words);
    } else {
      ask(report, what, outcome, found);
    }
    const std::string by = stale == 0 ? "" : ", the first by " + std::to_string(age) + " rounds";
    report.add_evidence(what, words_or_reason(outcome, found + by));
  }
  return report;
}

// --- all
// The eleven, of this translation unit's bodies.

inline std::vector<Probe> probes() {
  return {{1, &p01_cp_after_mma},
          {2, &p02_cp_pair_source},
          {3, &p03_n_steps},
          {4, &p04_ld_lanes},
          {5, &p05_scale_partitions},
          {6, &p06_descriptor_start},
          {7, &p07_remote_arrive_scope},
          {8, &p08_mma_of_another_n},
          {9, &p09_no_accumulate_over_nan},
          {10, &p10_golden_words},
          {kProbes, &p11_fp4_groups}};
}

}  // namespace MXCHECK_SM100_PROBE_BODY
}  // namespace mxcheck::sm100::probe
