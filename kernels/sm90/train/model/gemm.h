#pragma once
// Linear maps and products of attention's heads as GEMMs of BF16 under sm90_bf16, operands as they lie in memory. A
// head's width that is no multiple of 64 is a chain that goes on over zeros, which leaves every sum as it is
// (gemm/matmul.h).
//
// Errors: Refusal{DEVICE_ERROR}.

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {

// y = x W^T: x is rows x in, W out x in.
struct LinearMap {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  const std::int64_t* end = nullptr;  // on the device: `rows`
};
void linear(const LinearMap& map, const std::uint16_t* x, const std::uint16_t* w, MatmulOutput output, void* y,
            cudaStream_t stream);
// dy W, rows x in.
void linear_dx(const LinearMap& map, const std::uint16_t* dy, const std::uint16_t* w, MatmulOutput output, void* dx,
               cudaStream_t stream);
// dy^T x, out x in.
void linear_dw(const LinearMap& map, const std::uint16_t* dy, const std::uint16_t* x, float* dw, cudaStream_t stream);

// Groups of matrices: scores are length x length, others length x width.
struct HeadProducts {
  int groups = 0;
  std::int64_t length = 0;
  std::int64_t width = 0;
  const std::int64_t* ends = nullptr;  // on the device: (g + 1) * length
};
// a b^T, FP32 scores.
void head_scores(const HeadProducts& h, const std::uint16_t* a, const std::uint16_t* b, float* scores,
                 cudaStream_t stream);
// scores x.
void head_mix(const HeadProducts& h, const std::uint16_t* scores, const std::uint16_t* x, MatmulOutput output,
              void* out, cudaStream_t stream);
// scores^T x.
void head_mix_transposed(const HeadProducts& h, const std::uint16_t* scores, const std::uint16_t* x,
                         MatmulOutput output, void* out, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
