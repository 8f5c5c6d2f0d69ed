#pragma once
// The four warps that write: accumulators out of tensor memory, times alpha, plus C, rounded once to D's type.
// A thread has a row: warp w of a CTA reaches lanes 32 (w % 4) to 32 (w % 4) + 31 alone (PTX ISA 9.0, 9.7.16.2.3.1).

#include <cmath>
#include <cstring>

#include "kernels/sm100/gemm/load.h"
#include "kernels/sm100/tcgen05/numbers.h"
#include "kernels/sm100/tcgen05/tmem.h"
#include "kernels/sm100/tcgen05/warp.h"

namespace mxcheck::sm100::gemm {

// To nearest even; NaN is 0x7FFF, as the conversion's is.
MXCHECK_SM100_DEVICE std::uint16_t to_bf16(float x) {
#if MXCHECK_SM100_EMULATED
  const std::uint32_t bits = float_bits(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
#else
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#endif
}

// Products and sums each rounded: no FMA, whatever the compiler would like.
MXCHECK_SM100_DEVICE float finish(float sum, float alpha, bool adds, float c) {
#if MXCHECK_SM100_EMULATED
  const float product = alpha * sum;
  const float value = adds ? product + c : product;
  return value == value ? value : float_of(0x7FFFFFFF);  // the one NaN that FMUL and FADD have, whatever the host's
#else
  const float product = __fmul_rn(alpha, sum);
  return adds ? __fadd_rn(product, c) : product;
#endif
}

MXCHECK_SM100_DEVICE float multiply_add(float a, float b, float c) {
#if MXCHECK_SM100_EMULATED
  const float value = std::fma(a, b, c);
  return value == value ? value : float_of(0x7FFFFFFF);
#else
  return __fmaf_rn(a, b, c);
#endif
}

// 32 columns of one row of D, of which `count` exist.
MXCHECK_SM100_DEVICE void write(const Params& p, std::int64_t row, std::int64_t column, int count,
                                const Fragment<32>& sums) {
  const std::int64_t at = row * p.n + column;
  MXCHECK_SM100_UNROLL
  for (int i = 0; i < 32; ++i) {
    if (i >= count) continue;  // not a break: registers are indexed by constants alone
    float c = 0;
    if (p.c != nullptr) {
      c = p.bf16 ? float_of(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(p.c)[at + i]) << 16)
                 : static_cast<const float*>(p.c)[at + i];
    }
    const float value = finish(float_of(sums.r[i]), p.alpha, p.c != nullptr, c);
    if (p.bf16) {
      static_cast<std::uint16_t*>(p.d)[at + i] = to_bf16(value);
    } else {
      static_cast<float*>(p.d)[at + i] = value;
    }
  }
}

// Tells the leader that an accumulator may be overwritten: this thread's loads are over (wait::ld), and the fence
// orders them before the arrival.
template <class T>
MXCHECK_SM100_DEVICE void drained(SharedAddress base, unsigned accumulator) {
  fence_before_thread_sync();
  const SharedAddress barrier = base + T::kDrained + 8 * static_cast<unsigned>(accumulator);
  if constexpr (T::kCtaGroup == 2) {
    barrier_arrive<Scope::cluster>(map_to_rank(barrier, 0));
  } else {
    barrier_arrive<Scope::cta>(barrier);
  }
}

// Accumulates one row: partial sums of 128 along k, each scaled by RN(scale of A * scale of B) and added by an FMA.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void promote(const Params& p, SharedAddress base, TmemAddress lanes, const Work& work,
                                  std::int64_t row_in_tile, Ring<T::kAccumulators>& accumulator, float (&sums)[T::kN]) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  const bool exists = row_in_tile < work.rows;
  const std::int64_t row_of_product = work.row + row_in_tile;
  const bool gathers = kGrouping != Grouping::depth && exists && p.gathered_rows != nullptr;
  const std::int64_t row = gathers ? p.gathered_rows[row_of_product] : row_of_product;
  const std::int64_t expert_rows = kGrouping == Grouping::rows ? (p.n + p.block_b - 1) / p.block_b : 0;
  const std::int64_t expert = kGrouping == Grouping::rows ? work.row_b / p.n : 0;
  for (std::int64_t k = 0; k < work.depth; k += T::kDepth) {
    const std::int64_t block = work.chunk_k + k / T::kDepth;
    const float factor_a = exists ? p.factors_a[row * p.chunks_k + block] : 0;
    barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
    fence_after_thread_sync();
    MXCHECK_SM100_UNROLL
    for (int n = 0; n < T::kN; n += 32) {
      Fragment<32> partial;
      tmem_ld<TmemShape::lanes32x32b, 32>(
          partial, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));
      tmem_wait_ld(partial);
      MXCHECK_SM100_UNROLL
      for (int i = 0; i < 32; ++i) {
        const std::int64_t column = work.column + n + i;
        const float factor_b =
            column < p.n ? p.factors_b[(expert * expert_rows + column / p.block_b) * p.chunks_k + block] : 0;
        sums[n + i] = multiply_add(float_of(partial.r[i]), finish(factor_a, factor_b, false, 0), sums[n + i]);
      }
    }
    drained<T>(base, accumulator.stage);
    accumulator.step();
  }
}

// By the 128 threads of warps 2 to 5 of each CTA.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void epilogue(const Params& p, SharedAddress base, TmemAddress tmem, std::int64_t unit,
                                   std::int64_t units) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  const unsigned rank = T::kCtaGroup == 2 ? cluster_rank() : 0;
  const unsigned slab = warp_index() % 4 * 32;
  const TmemAddress lanes = tmem + (slab << 16);
  const std::int64_t row_in_tile = T::kRows * rank + slab + lane_index();
  Schedule<kGrouping, T::kM, T::kN> schedule(p, unit, units);
  Ring<T::kAccumulators> accumulator;
  Work work;
  while (schedule.next(work)) {
    [[maybe_unused]] float promoted[T::kPromoted ? T::kN : 1] = {};
    const bool sums_exist = work.depth > 0;
    if constexpr (T::kPromoted) {
      promote<T, kGrouping>(p, base, lanes, work, row_in_tile, accumulator, promoted);
    } else if (sums_exist) {
      barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
      fence_after_thread_sync();
    }
    const bool writes = row_in_tile < work.rows;
    MXCHECK_SM100_UNROLL
    for (int n = 0; n < T::kN; n += 32) {
      Fragment<32> sums;
      if constexpr (T::kPromoted) {
        MXCHECK_SM100_UNROLL
        for (int i = 0; i < 32; ++i) sums.r[i] = float_bits(promoted[n + i]);
      } else if (sums_exist) {
        tmem_ld<TmemShape::lanes32x32b, 32>(
            sums, lanes + static_cast<unsigned>(static_cast<int>(accumulator.stage) * T::kN + n));
        tmem_wait_ld(sums);
      } else {
        MXCHECK_SM100_UNROLL
        for (int i = 0; i < 32; ++i) sums.r[i] = 0;
      }
      const std::int64_t column = work.column + n;
      const auto left = static_cast<int>(p.n - column < 32 ? p.n - column : 32);
      if (writes && left > 0) write(p, work.row_d + row_in_tile, column, left, sums);
    }
    if (T::kPromoted || !sums_exist) continue;
    drained<T>(base, accumulator.stage);
    accumulator.step();
  }
}

}  // namespace mxcheck::sm100::gemm
