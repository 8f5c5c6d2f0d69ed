#pragma once
// The thread that multiplies: scales of a stage into tensor memory, then four mma of 32 bytes along k.

#include "kernels/sm100/gemm/load.h"
#include "kernels/sm100/tcgen05/mma.h"

namespace mxcheck::sm100::gemm {

// By one thread, of the leader where there is a pair.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void multiply(const Params& p, SharedAddress base, TmemAddress tmem, std::int64_t unit,
                                   std::int64_t units) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  constexpr SharedLayout kRows128 = k_major(Swizzle::b128);
  const auto done = [](SharedAddress barrier) {
    if constexpr (T::kCtaGroup == 2) {
      commit_multicast<2>(barrier, pair_mask(0));
    } else {
      commit<1>(barrier);
    }
  };
  Schedule<kGrouping, T::kM, T::kN> schedule(p, unit, units);
  Ring<T::kStages> ring;
  Ring<T::kAccumulators> accumulator;
  const auto begin = [&] {
    barrier_wait<kScope>(base + T::kDrained + 8 * accumulator.stage, accumulator.round ^ 1);
    fence_after_thread_sync();
  };
  const auto end = [&] {
    done(base + T::kAccumulated + 8 * accumulator.stage);
    accumulator.step();
  };
  Work work;
  while (schedule.next(work)) {
    if (work.depth == 0) continue;  // D is alpha * 0 + C: nothing is accumulated
    if constexpr (!T::kPromoted) begin();
    for (std::int64_t k = 0; k < work.depth; k += T::kDepth) {
      if constexpr (T::kPromoted) begin();
      const TmemAddress d = tmem + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN);
      const auto stage = static_cast<unsigned>(ring.stage);
      barrier_wait<kScope>(base + T::kFull + 8 * ring.stage, ring.round);
      fence_after_thread_sync();
      const TmemAddress scales_a = tmem + T::kScaleColumn + stage * T::kSlotColumns;
      const TmemAddress scales_b = scales_a + 4;
      if constexpr (T::kScaled) {
        cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
            scales_a, shared_descriptor<scale_chunk()>(base + T::kScalesA + stage * kChunkBytes));
      }
      for (int c = 0; c < T::kChunksB; ++c) {
        cp<CpShape::rows32x128b_warpx4, T::kCtaGroup>(
            scales_b + static_cast<unsigned>(4 * c),
            shared_descriptor<scale_chunk()>(base + T::kScalesB +
                                             (stage * T::kChunksB + static_cast<unsigned>(c)) * kChunkBytes));
      }
      const SharedDescriptor a = shared_descriptor<kRows128>(base + T::kA + stage * T::kBytesA);
      const SharedDescriptor b = shared_descriptor<kRows128>(base + T::kB + stage * T::kBytesB);
      // Tiles of 64 and 192 columns begin in the middle of a chunk every second time: 64 rows are two columns.
      const TmemAddress rows_b = scales_b + static_cast<unsigned>(work.column % 128 / 32);
      const std::int64_t left = work.depth - k;
      const int steps = left < T::kDepth ? static_cast<int>((left + T::kStep - 1) / T::kStep) : T::kDepth / T::kStep;
      for (int i = 0; i < steps; ++i) {
        const auto id = static_cast<unsigned>(i);
        const bool accumulates = (k > 0 && !T::kPromoted) || i > 0;
        const SharedDescriptor step_a = advance(a, kStepK * id);
        const SharedDescriptor step_b = advance(b, kStepK * id);
        if constexpr (T::kScaled) {
          mma_block_scaled<T::kCtaGroup>(d, step_a, step_b, with_scale_ids(p.instruction, id, id), scales_a, rows_b,
                                         accumulates);
        } else if constexpr (T::kPromoted) {
          mma_f8f6f4<T::kCtaGroup>(d, step_a, step_b, p.instruction, accumulates);
        } else {
          mma_f16<T::kCtaGroup>(d, step_a, step_b, p.instruction, accumulates);
        }
      }
      done(base + T::kEmpty + 8 * ring.stage);
      ring.step();
      if constexpr (T::kPromoted) end();
    }
    if constexpr (!T::kPromoted) end();
  }
}

}  // namespace mxcheck::sm100::gemm
