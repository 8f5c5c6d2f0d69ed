#pragma once
// The end of 4 x 4 outputs: alpha, C, the output's format, and the comparison with D.

#include <cstdint>

#include "properties/gpu_model/element.cuh"
#include "properties/gpu_model/job.cuh"
#include "properties/gpu_model/step.cuh"

namespace mxcheck::gpu_model {

// The output's word.
__device__ inline std::uint32_t finish(const MxcheckGpuModelCall& c, float value, std::int64_t line,
                                       std::int64_t column) {
  if (c.alpha != 1.0F) value = __fmul_rn(c.alpha, value);
  if (c.c != nullptr) value = __fadd_rn(value, c.c[line * c.ldc + column]);
  if (c.output == MXCHECK_GPU_MODEL_OUT_BF16) return bf16_word(value);
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? kNan : bits;
}

__device__ inline bool is_nan(const MxcheckGpuModelCall& c, std::uint32_t word) {
  return c.output == MXCHECK_GPU_MODEL_OUT_BF16 ? (word & 0x7FFF) > 0x7F80 : (word & 0x7FFFFFFF) > 0x7F800000;
}

__device__ inline void settle(const KernelCall& p, Shared& s, const float (&value)[4][4], int row, int column) {
  const MxcheckGpuModelCall& c = p.call;
  const bool strict = c.output == MXCHECK_GPU_MODEL_OUT_FP32 && c.promotion == 0 && c.alpha == 1.0F && c.c == nullptr;
  unsigned int compared = 0;
  unsigned int differing = 0;
  unsigned long long first = ~0ULL;
#pragma unroll
  for (int o = 0; o < 16; ++o) {
    const std::int64_t d_row = s.row[row + o / 4];
    const std::int64_t d_column = s.job.column + column + o % 4;
    if (d_row < 0 || d_column >= c.n) continue;
    const std::int64_t line = (c.groups == MXCHECK_GPU_MODEL_ALONG_K ? s.job.expert * c.m : 0) + d_row;
    const std::uint32_t expected = finish(c, value[o / 4][o % 4], line, d_column);
    const std::int64_t at = line * c.ldd + d_column;
    ++compared;
    if (c.mode == MXCHECK_GPU_MODEL_WRITE) {
      if (c.output == MXCHECK_GPU_MODEL_OUT_BF16) {
        static_cast<std::uint16_t*>(c.d)[at] = static_cast<std::uint16_t>(expected);
      } else {
        static_cast<std::uint32_t*>(c.d)[at] = expected;
      }
      continue;
    }
    const std::uint32_t observed = c.output == MXCHECK_GPU_MODEL_OUT_BF16 ? static_cast<const std::uint16_t*>(c.d)[at]
                                                                          : static_cast<const std::uint32_t*>(c.d)[at];
    const auto index = static_cast<unsigned long long>(line * c.n + d_column);
    if (p.extract) {
      if (index == c.report->first) {
        c.report->expected = expected;
        c.report->observed = observed;
      }
      continue;
    }
    const bool equal = expected == observed || (!strict && is_nan(c, expected) && is_nan(c, observed));
    if (!equal) {
      ++differing;
      first = index < first ? index : first;
    }
  }
  if (p.extract) return;
  atomicAdd(&s.compared, compared);
  if (differing != 0) {
    atomicAdd(&s.differing, differing);
    atomicMin(&s.first, first);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  auto* report = c.report;
  atomicAdd(reinterpret_cast<unsigned long long*>(&report->compared), static_cast<unsigned long long>(s.compared));
  if (s.differing == 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&report->differing), static_cast<unsigned long long>(s.differing));
  atomicMin(reinterpret_cast<unsigned long long*>(&report->first), s.first);
}

}  // namespace mxcheck::gpu_model
