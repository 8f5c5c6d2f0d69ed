#pragma once
// The comparison: a tile of 64 x 64 outputs a block, 4 x 4 a thread, 32 of k at a time through shared memory.

#include <cstdint>

#include "properties/gpu_model/chunk.cuh"
#include "properties/gpu_model/job.cuh"
#include "properties/gpu_model/settle.cuh"
#include "properties/gpu_model/tile.cuh"

namespace mxcheck::gpu_model {

template <int kA, int kB>
__global__ __launch_bounds__(kThreads, 2) void compare_kernel(const __grid_constant__ KernelCall p) {
  using A = FormatOf<kA>;
  using B = FormatOf<kB>;
  static_assert(A::kStep == B::kStep && A::kFraction == B::kFraction &&
                sizeof(typename A::Code) == sizeof(typename B::Code));
  static_assert(kDepth % A::kStep == 0 && kThreads == 2 * kLines && kTile * kTile == 16 * kThreads);
  __shared__ __align__(16) Shared s;
  const MxcheckGpuModelCall& c = p.call;
  const int thread = static_cast<int>(threadIdx.x);

  find_job(p, s);
  __syncthreads();
  if (!s.job.valid) return;
  find_rows(p, s);
  __syncthreads();

  // Load: two threads a line. Compute: 4 x 4 outputs a thread.
  const int line = thread % kLines;
  const int half = thread / kLines * kHalf;
  const int row = thread / 16 * 4;
  const int column = thread % 16 * 4;
  const typename A::Code* from = nullptr;
  if (line < kTile) {
    if (s.a_row[line] >= 0) from = static_cast<const typename A::Code*>(c.a) + s.a_row[line] * c.lda;
  } else if (s.job.column + line - kTile < c.n) {
    const std::int64_t expert = c.groups == MXCHECK_GPU_MODEL_ALONG_M ? s.job.expert : 0;
    from = static_cast<const typename A::Code*>(c.b) + (expert * c.n + s.job.column + line - kTile) * c.ldb;
  }

  const std::int64_t k_end = s.job.k_end;
  std::int64_t interval = s.job.k_begin;
  std::uint32_t chain[4][4] = {};
  float total[4][4] = {};
  Codes<typename A::Code> codes;
  codes.load(from, interval + half, k_end);
  for (std::int64_t k = s.job.k_begin; k < k_end; k += kDepth) {
    if (line < kTile) {
      store<A>(codes, s, line, half);
    } else {
      store<B>(codes, s, line, half);
    }
    __syncthreads();
    codes.load(from, k + kDepth + half, k_end);
#pragma unroll 1
    for (int at = 0; at < kDepth && k + at < k_end; at += A::kStep) {
      step<A>(s, at, row, kTile + column, chain);
      const std::int64_t next = k + at + A::kStep;
      if (c.promotion == 0 || (next - interval < c.promotion && next < k_end)) continue;
      promote(c, s, interval, row, column, chain, total);
      interval = next;
    }
    __syncthreads();
  }
  if (c.promotion == 0) {
#pragma unroll
    for (int o = 0; o < 16; ++o) total[o / 4][o % 4] = __uint_as_float(chain[o / 4][o % 4]);
  }
  settle(p, s, total, row, column);
}

static __global__ void begin_report(MxcheckGpuModelReport* report) { *report = {0, 0, ~std::uint64_t{0}, 0, 0, 0, 0}; }

static __global__ void decode_mx_kernel(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows,
                                        std::int64_t k, std::uint16_t* out) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < rows * k; at += threads) {
    const std::uint8_t scale = scales[at / k * divide_up(k, 32) + at % k / 32];
    out[at] = static_cast<std::uint16_t>(mx_as_bf16(codes[at], scale));
  }
}

static __global__ void decode_nvfp4_kernel(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t rows,
                                           std::int64_t k, std::uint16_t* out) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < rows * k; at += threads) {
    const std::int64_t row = at / k;
    const std::int64_t column = at % k;
    const std::uint32_t two = codes[row * divide_up(k, 2) + column / 2];
    const std::uint8_t scale = scales[row * divide_up(k, 16) + column / 16];
    out[at] = static_cast<std::uint16_t>(nvfp4_as_bf16(column % 2 == 0 ? two & 0xF : two >> 4, scale));
  }
}

}  // namespace mxcheck::gpu_model
