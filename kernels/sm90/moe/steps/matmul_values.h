#pragma once
// The six GEMMs of a layer whose operands are BF16, as steps, and such operands: as they are, or through a block format
// and back. Weights are multiplied as they lie: none is transposed.

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/moe/steps/builder.h"

namespace mxcheck_kernels::sm90 {

// An operand of a GEMM, in BF16.
struct MoeOperand {
  const std::uint16_t* values = nullptr;
  Part part;  // of the arena, where that holds it
};

// D [routed, n] = A [routed, k] B, of each expert's B: k x n where `transposed`, else n x k.
struct RowsGemm {
  const char* name = nullptr;
  MoeOperand a;
  MoeOperand b;
  bool transposed = false;
  void* d = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  MatmulOutput output = MatmulOutput::bf16;
};
void add_rows_gemm(MoeBuilder& builder, const RowsGemm& gemm);

// D [experts * m, n] in FP32 = A^T B along each expert's rows, of A [routed, m] and B [routed, n].
struct DepthGemm {
  const char* name = nullptr;
  MoeOperand a;
  MoeOperand b;
  float* d = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
};
void add_depth_gemm(MoeBuilder& builder, const DepthGemm& gemm);

}  // namespace mxcheck_kernels::sm90
