#pragma once
// D = A B^T of BF16 as in bf16.h, with A given as 8-bit codes and E8M0 scales of 1 x 32 that are decoded (decode.h) on
// their way to the tensor cores.
//
// b is BF16 with the columns of every 16 in the order of decode.h's `paired`: a thread's four codes of a step are then
// neighbours. The terms of one step have no order, so the result is bf16.h's.

#include "kernels/common/dtype.h"
#include "kernels/sm90/gemm/tile/matmul.h"

namespace mxcheck_kernels::sm90 {

// With `transposed` A is what D has as columns: A's rows are read from memory as codes alone, so it is the operand with
// the more of them.

struct MatmulDecoded : MatmulCall {
  Element a_format = Element::e4m3;
  const std::uint8_t* scale_a = nullptr;  // [row of A][k / 32]
};

// k is a multiple of 32.
cudaError_t matmul_decoded_launch(const MatmulDecoded& matmul, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
