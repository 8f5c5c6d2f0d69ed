#pragma once
// GEMMs of BF16 with operands that lie with k from row to row, as weights and a layer's activations do: the bits of
// matmul_bf16_launch, one chain of wgmma k16 steps over ascending k from zero, without a transposed copy.
//
// Kinds
//   rows   A: m x k as in gemm/matmul.h, cut into experts along m, without row_index; B: experts x k x n; D: m x n.
//   depth  A: k x m, B: k x n, cut into experts along k wherever offsets say; D: experts x m x n.
//
// a, b and their rows are aligned to 16 bytes: m and n are multiples of 8, and for rows k.

#include <cstdint>

#include "kernels/sm90/gemm/matmul.h"

namespace mxcheck_kernels::sm90 {

cudaError_t matmul_transposed_launch(const MatmulCall& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
