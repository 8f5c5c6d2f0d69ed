#include "kernels/sm90/moe/steps/matmul_values.h"

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/moe/gemm/transposed.h"

namespace mxcheck_kernels::sm90 {
namespace {

std::uint64_t products_of(std::int64_t routed, std::int64_t m, std::int64_t n) { return bytes_of(routed, m, n); }

MatmulCall matmul_of(const MoeBuilder& b, MatmulKind kind, MatmulOutput output, const MoeOperand& a) {
  const MoeCall& c = b.call();
  MatmulCall matmul;
  matmul.kind = kind, matmul.output = output;
  matmul.a = a.values;
  matmul.experts = static_cast<int>(c.experts);
  matmul.offsets = ends_of(data_of<const std::int64_t>(c.tensors.offsets));
  matmul.status = b.status();
  return matmul;
}

}  // namespace

void add_rows_gemm(MoeBuilder& builder, const RowsGemm& gemm) {
  const MoeCall& c = builder.call();
  require_tiles(gemm.name, c.routed, gemm.n, c.experts, false);
  MatmulCall matmul = matmul_of(builder, MatmulKind::rows, gemm.output, gemm.a);
  matmul.b = gemm.b.values, matmul.d = gemm.d;
  matmul.m = c.routed, matmul.n = gemm.n, matmul.k = gemm.k;
  const std::uint64_t bytes = bytes_of(c.routed, gemm.k, 2) + bytes_of(c.experts * gemm.n, gemm.k, 2) +
                              bytes_of(c.routed, gemm.n, gemm.output == MatmulOutput::bf16 ? 2 : 4);
  const bool transposed = gemm.transposed;
  MoeGemm facts = described(matmul);
  facts.b.by_k = transposed;
  builder.add_gemm(gemm.name, bytes, products_of(c.routed, gemm.n, gemm.k), facts,
                   [matmul, transposed](cudaStream_t stream) {
                     return transposed ? matmul_transposed_launch(matmul, stream) : matmul_bf16_launch(matmul, stream);
                   });
}

void add_depth_gemm(MoeBuilder& builder, const DepthGemm& gemm) {
  const MoeCall& c = builder.call();
  require_tiles(gemm.name, gemm.m, gemm.n, c.experts, true);
  MatmulCall matmul = matmul_of(builder, MatmulKind::depth, MatmulOutput::fp32, gemm.a);
  matmul.b = gemm.b.values, matmul.d = gemm.d;
  matmul.m = gemm.m, matmul.n = gemm.n, matmul.k = c.routed;
  const std::uint64_t bytes = bytes_of(c.routed, gemm.m + gemm.n, 2) + bytes_of(c.experts * gemm.m, gemm.n, 4);
  MoeGemm facts = described(matmul);
  facts.a.by_k = facts.b.by_k = true;
  builder.add_gemm(gemm.name, bytes, products_of(c.routed, gemm.m, gemm.n), facts,
                   [matmul](cudaStream_t stream) { return matmul_transposed_launch(matmul, stream); });
}

}  // namespace mxcheck_kernels::sm90
