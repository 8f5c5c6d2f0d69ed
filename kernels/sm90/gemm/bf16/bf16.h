#pragma once
// D = A B^T of BF16, defined to the bit. Shapes, kinds and rules are tile/matmul.h's; k is a multiple of 8.
//
//   acc   = wgmma k16 steps over k, one chain, ascending, from zero; +0 without columns
//   sum   = alpha == 1 ? acc : mul_rn(acc, alpha)
//   value = accumulate ? add_rn(sum, C) : sum
//   D     = value, or RNE of value to BF16
//
// Independent of tile, schedule and kind. Past the end of k a chain may continue over zeros, up to the next multiple of
// 64: a step of zeros leaves every sum as it is.

#include "kernels/sm90/gemm/tile/matmul.h"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_bf16_launch(const MatmulCall& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
