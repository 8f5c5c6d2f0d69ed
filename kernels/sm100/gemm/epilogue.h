#pragma once
// The four warps that write: accumulators out of tensor memory, times alpha, plus C, rounded once to D's type.
// A thread has a row: warp w of a CTA reaches lanes 32 (w % 4) to 32 (w % 4) + 31 alone (PTX ISA 9.0, 9.7.16.2.3.1).

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
  return adds ? product + c : product;
#else
  const float product = __fmul_rn(alpha, sum);
  return adds ? __fadd_rn(product, c) : product;
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

// By the 128 threads of warps 2 to 5 of each CTA.
template <class T, Grouping kGrouping>
MXCHECK_SM100_DEVICE void epilogue(const Params& p, SharedAddress base, TmemAddress tmem, std::int64_t unit,
                                   std::int64_t units) {
  constexpr Scope kScope = T::kCtaGroup == 2 ? Scope::cluster : Scope::cta;
  const unsigned rank = T::kCtaGroup == 2 ? cluster_rank() : 0;
  const unsigned slab = warp_index() % 4 * 32;
  const std::int64_t row_in_tile = T::kRows * rank + slab + lane_index();
  Schedule<kGrouping, T::kM, T::kN> schedule(p, unit, units);
  Ring<T::kAccumulators> accumulator;
  Work work;
  while (schedule.next(work)) {
    const bool sums_exist = work.depth > 0;
    if (sums_exist) {
      barrier_wait<kScope>(base + T::kAccumulated + 8 * accumulator.stage, accumulator.round);
      fence_after_thread_sync();
    }
    const bool writes = row_in_tile < work.rows;
    for (int n = 0; n < T::kN; n += 32) {
      Fragment<32> sums;
      if (sums_exist) {
        tmem_ld<TmemShape::lanes32x32b, 32>(sums,
                                            tmem + (slab << 16) + static_cast<unsigned>(accumulator.stage * T::kN + n));
        tmem_wait_ld(sums);
      } else {
        MXCHECK_SM100_UNROLL
        for (int i = 0; i < 32; ++i) sums.r[i] = 0;
      }
      const std::int64_t column = work.column + n;
      const auto left = static_cast<int>(p.n - column < 32 ? p.n - column : 32);
      if (writes && left > 0) write(p, work.row_d + row_in_tile, column, left, sums);
    }
    if (!sums_exist) continue;
    // The leader's next tile may overwrite the accumulator: loads are over (wait::ld), the fence orders them before the
    // arrival.
    fence_before_thread_sync();
    const SharedAddress drained = base + T::kDrained + 8 * accumulator.stage;
    if constexpr (T::kCtaGroup == 2) {
      barrier_arrive<Scope::cluster>(map_to_rank(drained, 0));
    } else {
      barrier_arrive<Scope::cta>(drained);
    }
    accumulator.step();
  }
}

}  // namespace mxcheck::sm100::gemm
