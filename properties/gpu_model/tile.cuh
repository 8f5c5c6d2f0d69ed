#pragma once
// 4 x 4 outputs of one thread: a step of the chain, and the end of an interval of promotion.

#include <cstdint>

#include "properties/gpu_model/chunk.cuh"
#include "properties/gpu_model/element.cuh"
#include "properties/gpu_model/step.cuh"

namespace mxcheck::gpu_model {

// One step of 4 x 4 outputs: lines `row` .. of A and `column` .. of B, from k of the chunk.
template <class F>
__device__ __forceinline__ void step(const Shared& s, int k, int row, int column, std::uint32_t (&chain)[4][4]) {
  // Window. -28000 is no exponent of a product.
  std::uint32_t inverse[4][4];
#pragma unroll
  for (int i = 0; i < 16; ++i) inverse[i / 4][i % 4] = 0x92A092A0;
#pragma unroll 4
  for (int pair = k / 2; pair < (k + F::kStep) / 2; ++pair) {
    const FourPairs a = load_four(&s.exponents[pair][row]);
    const FourPairs b = load_four(&s.exponents[pair][column]);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      inverse[i / 4][i % 4] = __viaddmax_s16x2(a.at[i / 4], b.at[i % 4], inverse[i / 4][i % 4]);
    }
  }
  bool slow = false;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    std::uint32_t& x = inverse[i / 4][i % 4];
    x = inverse_unit(x, chain[i / 4][i % 4], F::kFraction);
    slow = slow || x == kSlow;
  }

  // Sums of units: int32 for 8 products with 25 fraction bits (2^30), for all with 13.
  constexpr int kPart = F::kFraction == 13 ? F::kStep : 8;
  std::int32_t sums[F::kStep / kPart][4][4] = {};
#pragma unroll
  for (int part = 0; part < F::kStep / kPart; ++part) {
#pragma unroll 4
    for (int i = 0; i < kPart; ++i) {
      const Four a = load_four(&s.value[k + part * kPart + i][row]);
      const Four b = load_four(&s.value[k + part * kPart + i][column]);
#pragma unroll
      for (int o = 0; o < 16; ++o) {
        sums[part][o / 4][o % 4] += units(a.at[o / 4], b.at[o % 4], inverse[o / 4][o % 4]);
      }
    }
  }
  if (slow) {
#pragma unroll
    for (int o = 0; o < 16; ++o) {
      if (inverse[o / 4][o % 4] != kSlow) continue;
      std::uint32_t& c = chain[o / 4][o % 4];
      c = slow_step<F, kLines>(&s.value[k][row + o / 4], &s.value[k][column + o % 4], &s.exponents[k / 2][row + o / 4],
                               &s.exponents[k / 2][column + o % 4], c);
      inverse[o / 4][o % 4] = kKept;
    }
  }
#pragma unroll
  for (int o = 0; o < 16; ++o) {
    std::uint32_t& c = chain[o / 4][o % 4];
    const std::uint32_t x = inverse[o / 4][o % 4];
    std::uint32_t word;
    if constexpr (F::kFraction == 13) {
      word = word_of<F>(sums[0][o / 4][o % 4] + units_of_c(c, x), x);
    } else {
      std::int64_t sum = units_of_c(c, x);
#pragma unroll
      for (int part = 0; part < F::kStep / kPart; ++part) sum += sums[part][o / 4][o % 4];
      word = word_of<F>(sum, x);
    }
    c = x == kKept ? c : word;
  }
}

__device__ inline float load_scale(const MxcheckGpuModelCall& c, const void* scales, std::int64_t at) {
  if (c.scale_format == MXCHECK_GPU_MODEL_SCALE_FP32) return static_cast<const float*>(scales)[at];
  return decode_e8m0(static_cast<const std::uint8_t*>(scales)[at]);
}

// The end of an interval that began at column k: chain into total, chain to +0.
__device__ __forceinline__ void promote(const MxcheckGpuModelCall& c, const Shared& s, std::int64_t k, int row,
                                        int column, std::uint32_t (&chain)[4][4], float (&total)[4][4]) {
  float scale_a[4];
  float scale_b[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scale_a[i] = scale_b[i] = 1.0F;
    if (c.scale_format == MXCHECK_GPU_MODEL_NO_SCALE) continue;
    const std::int64_t a_row = s.a_row[row + i];
    const std::int64_t b_row = s.job.column + column + i;
    if (a_row >= 0) {
      scale_a[i] = load_scale(c, c.scale_a, a_row * divide_up(c.k, c.scale_a_block) + k / c.scale_a_block);
    }
    if (b_row < c.n) {
      const std::int64_t expert = c.groups == MXCHECK_GPU_MODEL_ALONG_M ? s.job.expert : 0;
      const std::int64_t line = expert * divide_up(c.n, c.scale_b_rows) + b_row / c.scale_b_rows;
      scale_b[i] = load_scale(c, c.scale_b, line * divide_up(c.k, c.scale_b_block) + k / c.scale_b_block);
    }
  }
#pragma unroll
  for (int o = 0; o < 16; ++o) {
    total[o / 4][o % 4] =
        __fmaf_rn(__uint_as_float(chain[o / 4][o % 4]), __fmul_rn(scale_a[o / 4], scale_b[o % 4]), total[o / 4][o % 4]);
    chain[o / 4][o % 4] = 0;
  }
}

}  // namespace mxcheck::gpu_model
