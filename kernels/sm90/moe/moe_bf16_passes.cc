// Layers whose GEMMs multiply BF16. Every tensor of the table is in the workspace while a step later reads it, rounded
// ones under the recipes that round.
//
//   forward   up: X, W1 rounded. swiglu: A. down: A, W2 rounded, Y. aggregate: Y.
//   backward  d_down: dO, W2 rounded, P. swiglu_backward: P, A', dH. d_w2: dH, A', and dO along tokens.
//             d_up: dH, dH along tokens, W1 rounded, dX~. d_w1: dH and X along tokens, dX~. d_aggregate: dX~.
//
// X, dO and what they are rounded to are copied to the rows of their experts (gather_rows.cu). Under NVFP4 "alpha of
// GEMM" makes the factor of its sums of the operands' outer scales. Without rounding the most is R (2 n + 2 d) bytes
// forward (A, Y), and R max(10 n + 2 d, 4 n + 4 d) backward.

#include <cstdint>
#include <string>

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/moe/moe_builder.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "kernels/sm90/moe/moe_operands.h"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- GEMMs: weights are multiplied as they lie, and none is transposed ----

// Adds the step that makes alpha of the outer scales of operands in NVFP4, before the GEMM. Null for other operands.
const float* add_alpha(MoeBuilder& builder, const char* gemm, const MoeOperand& a, const MoeOperand& b) {
  if (a.unit == 0 && b.unit == 0) return nullptr;
  const Part part = builder.memory.take(1, sizeof(float));
  AlphaJob job;
  job.alpha = builder.memory.at<float>(part);
  job.amax_a = a.amax, job.amax_b = b.amax, job.unit_a = a.unit, job.unit_b = b.unit;
  builder.add(std::string("alpha of ") + gemm, MoeStepKind::elementwise, 3 * sizeof(float),
              [job](cudaStream_t stream) { return launch_alpha(job, stream); });
  return job.alpha;
}

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

// D [routed, n] = A [routed, k] B, of each expert's B: k x n where `transposed`, else n x k.
struct MGroupedGemm {
  const char* name = nullptr;
  MoeOperand a;
  MoeOperand b;
  bool transposed = false;
  void* d = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  MatmulOutput output = MatmulOutput::bf16;
};
void add_m_grouped_gemm(MoeBuilder& builder, const MGroupedGemm& gemm) {
  const MoeCall& c = builder.call();
  require_tiles(gemm.name, c.routed, gemm.n, c.experts, false);
  MatmulCall matmul = matmul_of(builder, MatmulKind::rows, gemm.output, gemm.a);
  matmul.alpha_at = add_alpha(builder, gemm.name, gemm.a, gemm.b);
  matmul.b = gemm.b.values, matmul.d = gemm.d;
  matmul.m = c.routed, matmul.n = gemm.n, matmul.k = gemm.k;
  const std::uint64_t bytes = bytes_of(c.routed, gemm.k, 2) + bytes_of(c.experts * gemm.n, gemm.k, 2) +
                              bytes_of(c.routed, gemm.n, gemm.output == MatmulOutput::bf16 ? 2 : 4);
  const bool transposed = gemm.transposed;
  MoeGemm facts = described(matmul);
  facts.b.by_k = transposed, facts.alpha = matmul.alpha_at;
  builder.add_gemm(gemm.name, bytes, products_of(c.routed, gemm.n, gemm.k), facts,
                   [matmul, transposed](cudaStream_t stream) {
                     return transposed ? matmul_mn_major_launch(matmul, stream) : matmul_bf16_launch(matmul, stream);
                   });
}

// D [experts * m, n] in FP32 = A^T B along each expert's rows, of A [routed, m] and B [routed, n].
struct KGroupedGemm {
  const char* name = nullptr;
  MoeOperand a;
  MoeOperand b;
  float* d = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
};
void add_k_grouped_gemm(MoeBuilder& builder, const KGroupedGemm& gemm) {
  const MoeCall& c = builder.call();
  require_tiles(gemm.name, gemm.m, gemm.n, c.experts, true);
  MatmulCall matmul = matmul_of(builder, MatmulKind::depth, MatmulOutput::fp32, gemm.a);
  matmul.alpha_at = add_alpha(builder, gemm.name, gemm.a, gemm.b);
  matmul.b = gemm.b.values, matmul.d = gemm.d;
  matmul.m = gemm.m, matmul.n = gemm.n, matmul.k = c.routed;
  const std::uint64_t bytes = bytes_of(c.routed, gemm.m + gemm.n, 2) + bytes_of(c.experts * gemm.m, gemm.n, 4);
  MoeGemm facts = described(matmul);
  facts.a.by_k = facts.b.by_k = true, facts.alpha = matmul.alpha_at;
  builder.add_gemm(gemm.name, bytes, products_of(c.routed, gemm.m, gemm.n), facts,
                   [matmul](cudaStream_t stream) { return matmul_mn_major_launch(matmul, stream); });
}

// ---- The steps ----

constexpr int kBand = 32;
constexpr TokenNames kX{"quantize X", "gather X"};
constexpr TokenNames kDO{"quantize dO", "gather dO"};

// True if both GEMMs that read dO read it as it is.
bool shares_d_o(MoeBuilder& b) { return !rule(b, RoundedOperand::d_down_do) && !rule(b, RoundedOperand::d_w2_do); }

// X W1 to H, which is kept.
void add_up(MoeBuilder& b) {
  const MoeCall& c = b.call();
  const MoeOperand x = rows_of_tokens(b, kX, c.tensors.x, RoundedOperand::up_x);
  const MoeOperand w1 =
      round_weights(b, "quantize W1", c.tensors.w1, c.d, 2 * c.n, Along::columns, RoundedOperand::up_w1);
  add_m_grouped_gemm(b, {"up", x, w1, true, c.tensors.h.data, 2 * c.n, c.d, MatmulOutput::bf16});
  drop(b, x), drop(b, w1);
}

Part add_down(MoeBuilder& b, const Part& a) {
  const MoeCall& c = b.call();
  const MoeOperand rounded = round_routed(b, "quantize A", a, c.n, Along::rows, RoundedOperand::down_a);
  const MoeOperand w2 =
      round_weights(b, "quantize W2", c.tensors.w2, c.n, c.d, Along::columns, RoundedOperand::down_w2);
  const Part y = b.memory.take(c.routed, 2 * c.d);
  add_m_grouped_gemm(b, {"down", rounded, w2, true, b.memory.at<void>(y), c.d, c.n, MatmulOutput::bf16});
  drop(b, rounded), drop(b, w2);
  return y;
}

// dO stays where d_w2 reads it too.
Part add_d_down(MoeBuilder& b, const MoeOperand& d_o) {
  const MoeCall& c = b.call();
  const MoeOperand w2 = round_weights(b, "quantize W2", c.tensors.w2, c.n, c.d, Along::rows, RoundedOperand::d_down_w2);
  const Part p = b.memory.take(c.routed, 4 * c.n);
  add_m_grouped_gemm(b, {"d_down", d_o, w2, false, b.memory.at<void>(p), c.n, c.d, MatmulOutput::fp32});
  drop(b, w2);
  if (!shares_d_o(b)) drop(b, d_o);
  return p;
}

// X or dO for the gradient of a weight.
MoeOperand along_tokens(MoeBuilder& b, const char* rounds, const char* copies, const Checked& x,
                        RoundedOperand operand) {
  if (rule(b, operand)) return round_gathered(b, rounds, x, operand);
  return gather_tokens(b, copies, data_of<const std::uint16_t>(x));
}

void add_d_w2(MoeBuilder& b, const Part& scaled_a, const MoeOperand& d_o_rows) {
  const MoeCall& c = b.call();
  const MoeOperand a =
      round_routed(b, "quantize A' along tokens", scaled_a, c.n, Along::columns, RoundedOperand::d_w2_a);
  const MoeOperand d_o = shares_d_o(b) ? d_o_rows
                                       : along_tokens(b, "quantize dO along tokens", "gather dO for dW2", c.tensors.d_o,
                                                      RoundedOperand::d_w2_do);
  add_k_grouped_gemm(b, {"d_w2", a, d_o, data_of<float>(c.tensors.dw2), c.n, c.d});
  drop(b, a), drop(b, d_o);
}

Part add_d_up(MoeBuilder& b, const MoeOperand& dh) {
  const MoeCall& c = b.call();
  const Part dx = b.memory.take(c.routed, 2 * c.d);
  const MoeOperand w1 =
      round_weights(b, "quantize W1", c.tensors.w1, c.d, 2 * c.n, Along::rows, RoundedOperand::d_up_w1);
  add_m_grouped_gemm(b, {"d_up", dh, w1, false, b.memory.at<void>(dx), c.d, 2 * c.n, MatmulOutput::bf16});
  drop(b, w1), drop(b, dh);
  return dx;
}

void add_d_w1(MoeBuilder& b, const MoeOperand& dh) {
  const MoeCall& c = b.call();
  const MoeOperand x = along_tokens(b, "quantize X along tokens", kX.copy, c.tensors.x, RoundedOperand::d_w1_x);
  add_k_grouped_gemm(b, {"d_w1", x, dh, data_of<float>(c.tensors.dw1), c.d, 2 * c.n});
  drop(b, x), drop(b, dh);
}

}  // namespace

MoePlan forward_of_values(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  add_up(b);
  const Part a = b.memory.take(call.routed, 2 * call.n);
  add_swiglu(b, data_of<const std::uint16_t>(call.tensors.h), a);
  const Part y = add_down(b, a);
  b.add_aggregate("aggregate", y, call.tensors.o, true);
  return b.finish();
}

MoePlan backward_of_values(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  const Part dh_values = b.memory.take(call.routed, 4 * call.n);  // in front: it outlives what follows
  const MoeOperand d_o = rows_of_tokens(b, kDO, call.tensors.d_o, RoundedOperand::d_down_do);
  const Part p = add_d_down(b, d_o);
  const Part a = b.memory.take(call.routed, 2 * call.n);
  add_swiglu_backward(b, kept_h(call), p, {a, dh_values});
  b.memory.drop(p);
  add_d_w2(b, a, d_o);
  const RoundedPair dh = round_both(b, {"quantize dH", "quantize dH along tokens"}, dh_values, 2 * call.n,
                                    RoundedOperand::d_up_dh, RoundedOperand::d_w1_dh);
  const Part dx = add_d_up(b, dh.rows);
  add_d_w1(b, dh.columns);
  b.add_aggregate("d_aggregate", dx, call.tensors.dx, false);
  return b.finish();
}

}  // namespace mxcheck_kernels::sm90
