#include "kernels/sm90/moe/steps/matmul_codes.h"

namespace mxcheck_kernels::sm90 {
namespace {

MatmulFp8 matmul_of(const MoeCoder& coder, const MoeCodes& a, const MoeCodes& b) {
  MatmulFp8 matmul;
  matmul.experts = static_cast<int>(coder.b.call().experts);
  matmul.status = coder.b.status();
  matmul.a = a.codes, matmul.scale_a = a.scales;
  matmul.b = b.codes, matmul.scale_b = b.scales;
  matmul.a_scale_type = matmul.b_scale_type = coder.e8m0() ? MatmulScale::e8m0 : MatmulScale::fp32;
  return matmul;
}

void add(const MoeCoder& coder, const char* name, std::uint64_t bytes, const MatmulFp8& matmul) {
  const std::uint64_t products =
      bytes_of(coder.b.call().routed, matmul.n, matmul.kind == MatmulKind::rows ? matmul.k : matmul.m);
  MoeGemm gemm = described(matmul);
  gemm.format = MoeGemm::Format::e4m3;
  gemm.a.scales = matmul.scale_a, gemm.b.scales = matmul.scale_b;
  gemm.scale = matmul.a_scale_type, gemm.b_block = matmul.b_block;
  coder.b.add_gemm(name, bytes, products, gemm,
                   [matmul](cudaStream_t stream) { return matmul_fp8_launch(matmul, stream); });
}

}  // namespace

void add_rows_gemm(const MoeCoder& coder, const CodedRowsGemm& gemm) {
  const MoeCall& c = coder.b.call();
  require_tiles(gemm.name, c.routed, gemm.n, c.experts, false);
  MatmulFp8 matmul = matmul_of(coder, gemm.a, gemm.b);
  matmul.kind = MatmulKind::rows, matmul.output = gemm.output, matmul.b_block = MatmulBlock::square;
  matmul.offsets = ends_of(data_of<const std::int64_t>(c.tensors.offsets));
  matmul.d = gemm.d;
  matmul.m = c.routed, matmul.n = gemm.n, matmul.k = gemm.k;
  const std::uint64_t bytes = coder.bytes_of_rows(c.routed, gemm.k) +
                              coder.bytes_of_squares(c.experts * gemm.n, gemm.k) +
                              bytes_of(c.routed, gemm.n, gemm.output == MatmulOutput::bf16 ? 2 : 4);
  add(coder, gemm.name, bytes, matmul);
}

void add_depth_gemm(const MoeCoder& coder, const CodedDepthGemm& gemm) {
  const MoeCall& c = coder.b.call();
  require_tiles(gemm.name, gemm.m, gemm.n, c.experts, true);
  MatmulFp8 matmul = matmul_of(coder, gemm.a, gemm.b);
  matmul.kind = MatmulKind::depth, matmul.output = MatmulOutput::fp32, matmul.b_block = MatmulBlock::row;
  matmul.offsets = ends_of(coder.padded());
  matmul.d = gemm.d;
  matmul.m = gemm.m, matmul.n = gemm.n, matmul.k = coder.stride();
  const std::uint64_t bytes =
      coder.bytes_of_rows(gemm.m + gemm.n, coder.stride()) + bytes_of(c.experts * gemm.m, gemm.n, 4);
  add(coder, gemm.name, bytes, matmul);
}

}  // namespace mxcheck_kernels::sm90
