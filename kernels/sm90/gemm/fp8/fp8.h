#pragma once
// D = A B^T of 8-bit floats with block scales, defined to the bit. Shapes, kinds and rules are tile/matmul.h's; k is a
// multiple of 16.
//
// For every element of D:
//
//   acc = +0
//   for kb = 0 .. ceil(k/128) - 1:
//     partial = four chained wgmma k32 steps over columns 128 kb .., ascending, from zero; zeros past the end of k or
//               of the expert's columns: a step of zeros leaves every sum as it is
//     acc     = fma_rn(partial, mul_rn(scale_a, scale_b), acc)
//   sum   = alpha == 1 ? acc : mul_rn(acc, alpha)
//   value = accumulate ? add_rn(sum, C) : sum
//   D     = value, or RNE of value to BF16
//
// These operations in this order, whatever the tile, the schedule and the kind. Scales are FP32, or E8M0 bytes decoded
// to FP32 first (0 is the subnormal 2^-127, 255 is NaN); they are aligned to their elements.
//
// Scales
//   scale_a  [row of A][ceil(k / 128)]
//   scale_b  block: [expert][ceil(n / 128)][ceil(k / 128)], one for 128 x 128; row: [expert][n][ceil(k / 128)]
// Depth: scales are per row and 128 columns on both sides, from each expert's first column on. With experts of other
// columns than multiples of 128, scale_starts[e], on the device, is where those of expert e begin, of scale_columns in
// all; without it they begin at offsets / 128.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/common/dtype.h"
#include "kernels/sm90/gemm/tile/matmul.h"

namespace mxcheck_kernels::sm90 {

enum class MatmulScale : std::uint8_t { e8m0, fp32 };
enum class MatmulBlock : std::uint8_t { square, row };  // of B: 128 x 128, 1 x 128

struct MatmulFp8 : MatmulCall {
  Element a_format = Element::e4m3;
  Element b_format = Element::e4m3;
  MatmulScale a_scale_type = MatmulScale::fp32;
  MatmulScale b_scale_type = MatmulScale::fp32;
  MatmulBlock b_block = MatmulBlock::square;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  const std::int64_t* scale_starts = nullptr;
  int scale_columns = 0;
};

cudaError_t matmul_fp8_launch(const MatmulFp8& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
