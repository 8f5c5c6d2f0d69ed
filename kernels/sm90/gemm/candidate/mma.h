#pragma once
// The tensor cores alone: D = C + A B^T, one chain of wgmma steps over k for every output. The primitive that the
// contracts are validated with, for any shape, unoptimized: no swizzled copies, no pipeline, one warpgroup for 64 rows.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sm90/ptx/wgmma.cuh"

namespace mxcheck_kernels::sm90 {

// a is m x k, b n x k, c (null: zeros) and d m x n, all row-major and contiguous, at any aligned address. 64-bit
// extents.
struct MmaJob {
  Code a_code = Code::e4m3;
  Code b_code = Code::e4m3;  // another than a's for E4M3 and E5M2 alone
  const void* a = nullptr;
  const void* b = nullptr;
  const float* c = nullptr;
  float* d = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// Instructions of n = 8, 64 or 256 columns, the smallest that holds them.
cudaError_t launch_mma(const MmaJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
