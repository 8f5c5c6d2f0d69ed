#pragma once
// The thread that loads: A and B by TMA in the swizzle that mma reads, and their scales, into the stages of a ring.

#include <type_traits>

#include "kernels/sm100/gemm/schedule.h"
#include "kernels/sm100/gemm/tile.h"
#include "kernels/sm100/tcgen05/barrier.h"
#include "kernels/sm100/tcgen05/cluster.h"
#include "kernels/sm100/tcgen05/tma.h"

namespace mxcheck::sm100::gemm {

// A place in the ring, and how often it has been passed.
template <int kStages>
struct Ring {
  unsigned stage = 0;
  unsigned round = 0;
  MXCHECK_SM100_DEVICE void step() {
    if (++stage == kStages) {
      stage = 0;
      round ^= 1;
    }
  }
};

// 128 bytes of each of A's rows, where they are gathered, four rows a load. A row past the group's end is row -1, which
// lies outside of the tensor: zeros, which count as all bytes do.
template <class T>
MXCHECK_SM100_DEVICE void load_gathered(const Params& p, SharedAddress to, SharedAddress counts, int k,
                                        const Work& work, unsigned rank) {
  const auto row_of = [&](int i) {
    const std::int64_t row_in_tile = static_cast<std::int64_t>(T::kRows * rank) + i;
    return row_in_tile < work.rows ? p.gathered_rows[work.row + row_in_tile] : -1;
  };
  for (int i = 0; i < T::kRows; i += 4) {
    tma_gather4<T::kCtaGroup>(to + static_cast<unsigned>(i * kTileK), &p.a, counts, k, row_of(i), row_of(i + 1),
                              row_of(i + 2), row_of(i + 3));
  }
}

// By one thread of each CTA. Bytes of both CTAs of a pair count at the leader's barrier, which expects them once; the
// peer's may be there before the leader expects them.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void load(const Params& p, SharedAddress base, std::int64_t unit, std::int64_t units) {
  const unsigned rank = T::kCtaGroup == 2 ? cluster_rank() : 0;
  Schedule<kGrouping, T::kM, T::kN> schedule(p, unit, units);
  Ring<T::kStages> ring;
  Work work;
  // A tile. `gathers` is a type: each way to load A has a loop over k of its own, without a branch.
  const auto fill = [&](auto gathers) {
    const auto row_a = static_cast<int>(work.row + T::kRows * rank);
    const auto row_b = static_cast<int>(work.row_b + T::kRowsB * rank);
    for (std::int64_t k = 0; k < work.depth; k += T::kDepth) {
      const SharedAddress full = base + T::kFull + 8 * ring.stage;
      const auto stage = static_cast<unsigned>(ring.stage);
      // A ring that nobody has filled is empty: parity 1 passes at once in the first round.
      barrier_wait<T::kCtaGroup == 2 ? Scope::cluster : Scope::cta>(base + T::kEmpty + 8 * ring.stage, ring.round ^ 1);
      if (rank == 0) barrier_arrive_expect<Scope::cta>(full, T::kCtaGroup * T::kStageBytes);
      const SharedAddress counts = T::kCtaGroup == 2 ? map_to_rank(full, 0) : full;
      const auto at = static_cast<int>(work.k + k);
      const std::int64_t chunk_k = work.chunk_k + k / kTileK;
      if constexpr (decltype(gathers)::value) {
        load_gathered<T>(p, base + T::kA + stage * T::kBytesA, counts, at, work, rank);
      } else {
        tma_load<T::kCtaGroup>(base + T::kA + stage * T::kBytesA, &p.a, counts, at, row_a);
      }
      tma_load<T::kCtaGroup>(base + T::kB + stage * T::kBytesB, &p.b, counts, at, row_b);
      if constexpr (T::kScaled)
        tma_load<T::kCtaGroup>(base + T::kScalesA + stage * kChunkBytes, &p.scales_a, counts, 0,
                               static_cast<int>((work.chunk_a + rank) * p.chunks_k + chunk_k));
      for (int c = 0; c < T::kChunksB; ++c) {
        tma_load<T::kCtaGroup>(base + T::kScalesB + (stage * T::kChunksB + static_cast<unsigned>(c)) * kChunkBytes,
                               &p.scales_b, counts, 0, static_cast<int>((work.chunk_b + c) * p.chunks_k + chunk_k));
      }
      ring.step();
    }
  };
  while (schedule.next(work)) {
    if (kGrouping != Grouping::depth && p.gathered_rows != nullptr) {
      fill(std::true_type{});
    } else {
      fill(std::false_type{});
    }
  }
}

}  // namespace mxcheck::sm100::gemm
