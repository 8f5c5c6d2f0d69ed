#pragma once
// The six GEMMs of a layer whose operands are FP8 codes, as steps: sm90_fp8+promote128.

#include "kernels/sm90/moe/steps/codes.h"

namespace mxcheck_kernels::sm90 {

// D [routed, n] = A [routed, k] B^T, of each expert's B: n x k, whose scales are of 128 x 128.
struct CodedRowsGemm {
  const char* name = nullptr;
  MoeCodes a;
  MoeCodes b;
  void* d = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  MatmulOutput output = MatmulOutput::bf16;
};
void add_rows_gemm(const MoeCoder& coder, const CodedRowsGemm& gemm);

// D [experts * m, n] in FP32 = A B^T along each expert's rows, of codes along tokens: A m x stride, B n x stride.
struct CodedDepthGemm {
  const char* name = nullptr;
  MoeCodes a;
  MoeCodes b;
  float* d = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
};
void add_depth_gemm(const MoeCoder& coder, const CodedDepthGemm& gemm);

}  // namespace mxcheck_kernels::sm90
