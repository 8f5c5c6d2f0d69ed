// Layers whose GEMMs multiply BF16. Every tensor of the table is in the workspace while a step later reads it, rounded
// ones under the recipes that round.
//
//   forward   up: X, W1 rounded. swiglu: A. down: A, W2 rounded, Y. aggregate: Y.
//   backward  d_down: dO, W2 rounded, P. swiglu_backward: P, A', dH. d_w2: dH, A', and dO along tokens.
//             d_up: dH, dH along tokens, W1 rounded, dX~. d_w1: dH and X along tokens, dX~. d_aggregate: dX~.
//
// X, dO and what they are rounded to are copied to the rows of their experts (gather_rows.cu). Without rounding the
// most is R (2 n + 2 d) bytes forward (A, Y), and R max(10 n + 2 d, 4 n + 4 d) backward.

#include <algorithm>
#include <optional>

#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/moe/moe_builder.h"
#include "kernels/sm90/moe/moe_kernels.h"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- GEMMs: weights are multiplied as they lie, and none is transposed ----

// An operand of a GEMM, in BF16.
struct MoeOperand {
  const std::uint16_t* values = nullptr;
  Part part;  // of the arena, where that holds it
};

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
  matmul.b = gemm.b.values, matmul.d = gemm.d;
  matmul.m = c.routed, matmul.n = gemm.n, matmul.k = gemm.k;
  const std::uint64_t bytes = bytes_of(c.routed, gemm.k, 2) + bytes_of(c.experts * gemm.n, gemm.k, 2) +
                              bytes_of(c.routed, gemm.n, gemm.output == MatmulOutput::bf16 ? 2 : 4);
  const bool transposed = gemm.transposed;
  MoeGemm facts = described(matmul);
  facts.b.by_k = transposed;
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
  matmul.b = gemm.b.values, matmul.d = gemm.d;
  matmul.m = gemm.m, matmul.n = gemm.n, matmul.k = c.routed;
  const std::uint64_t bytes = bytes_of(c.routed, gemm.m + gemm.n, 2) + bytes_of(c.experts * gemm.m, gemm.n, 4);
  MoeGemm facts = described(matmul);
  facts.a.by_k = facts.b.by_k = true;
  builder.add_gemm(gemm.name, bytes, products_of(c.routed, gemm.m, gemm.n), facts,
                   [matmul](cudaStream_t stream) { return matmul_mn_major_launch(matmul, stream); });
}

// ---- Operands: through a block format and back as steps "quantize ...", or, without a rule, as they are ----

enum class Along : std::uint8_t { rows, columns };  // of the tensor as it lies: where 32 neighbours share a scale

using MaybeRule = std::optional<RoundRule>;

// rows x cols out of as many rows of x, or of fewer of `source_rows` that are gathered.
void add_round_trip(MoeBuilder& b, const char* name, const RoundTripJob& job, std::int64_t source_rows) {
  const std::int64_t outputs = (job.along_rows != nullptr ? 1 : 0) + (job.along_columns != nullptr ? 1 : 0);
  const std::uint64_t index = job.index == nullptr ? 0 : bytes_of(job.rows.rows, 1, 4);
  const std::uint64_t bytes = bytes_of(source_rows, job.cols, 2) + bytes_of(job.rows.rows, job.cols, 2 * outputs);
  const bool empty = job.rows.rows == 0 || job.cols == 0;
  b.add(name, MoeStepKind::quantize, bytes + index,
        [job, empty](cudaStream_t stream) { return empty ? cudaSuccess : launch_round_trip(job, stream); });
}

void set_along(RoundTripJob& job, Along along, std::uint16_t* to, RoundRule rule) {
  if (along == Along::rows) {
    job.along_rows = to, job.row_rule = rule;
  } else {
    job.along_columns = to, job.column_rule = rule;
  }
}

// X or dO [tokens, d] copied to the rows of experts.
MoeOperand gather_tokens(MoeBuilder& b, const char* name, const std::uint16_t* x) {
  const MoeCall& c = b.call();
  const Part part = b.memory.take(c.routed, 2 * c.d);
  auto* const to = b.memory.at<std::uint16_t>(part);
  add_gather(b, name, {x, to, 2 * c.d}, {});
  return {to, part};
}

// X or dO [tokens, d] as rows of experts: rounded once a token, and copied to its rows.
// `names` are of the rounding and of the copy.
struct TokenNames {
  const char* values;
  const char* copy;
};
MoeOperand rows_of_tokens(MoeBuilder& b, const TokenNames& names, const Checked& x, const MaybeRule& rule) {
  const MoeCall& c = b.call();
  const auto* const values = data_of<const std::uint16_t>(x);
  if (!rule) return gather_tokens(b, names.copy, values);
  const Part part = b.memory.take(c.tokens, 2 * c.d);
  RoundTripJob job;
  job.x = values, job.cols = c.d, job.rows = b.plain_rows(c.tokens);
  set_along(job, Along::rows, b.memory.at<std::uint16_t>(part), *rule);
  add_round_trip(b, names.values, job, c.tokens);
  const MoeOperand gathered = gather_tokens(b, names.copy, job.along_rows);
  b.memory.drop(part);
  return gathered;
}

// The same tensors as rows of experts, rounded along tokens.
MoeOperand round_gathered(MoeBuilder& b, const char* name, const Checked& x, RoundRule rule) {
  const MoeCall& c = b.call();
  const Part part = b.memory.take(c.routed, 2 * c.d);
  RoundTripJob job;
  job.x = data_of<const std::uint16_t>(x), job.cols = c.d, job.rows = b.routed_rows();
  job.index = data_of<const std::int32_t>(c.tensors.row_token);
  set_along(job, Along::columns, b.memory.at<std::uint16_t>(part), rule);
  add_round_trip(b, name, job, c.tokens < c.routed ? c.tokens : c.routed);
  return {job.along_columns, part};
}

// w [experts * rows, cols].
MoeOperand round_weights(MoeBuilder& b, const char* name, const Checked& w, std::int64_t rows, std::int64_t cols,
                         Along along, const MaybeRule& rule) {
  const MoeCall& c = b.call();
  if (!rule) return {data_of<const std::uint16_t>(w), {}};
  const Part part = b.memory.take(c.experts * rows, 2 * cols);
  RoundTripJob job;
  job.x = data_of<const std::uint16_t>(w), job.cols = cols, job.expert_rows = rows;
  job.rows = b.plain_rows(c.experts * rows);
  set_along(job, along, b.memory.at<std::uint16_t>(part), *rule);
  add_round_trip(b, name, job, c.experts * rows);
  return {b.memory.at<const std::uint16_t>(part), part};
}

// x [routed, cols] of the arena, which it takes: that is dropped, or becomes the operand.
MoeOperand round_routed(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, Along along,
                        const MaybeRule& rule) {
  const MoeCall& c = b.call();
  if (!rule) return {b.memory.at<const std::uint16_t>(x), x};
  const Part part = b.memory.take(c.routed, 2 * cols);
  RoundTripJob job;
  job.x = b.memory.at<const std::uint16_t>(x), job.cols = cols;
  job.rows = along == Along::rows ? b.plain_rows(c.routed) : b.routed_rows();
  set_along(job, along, b.memory.at<std::uint16_t>(part), *rule);
  add_round_trip(b, name, job, c.routed);
  b.memory.drop(x);
  return {b.memory.at<const std::uint16_t>(part), part};
}

// x [routed, cols] in both directions from one read. `rows` are read, and their part dropped, before `columns`. The
// memory of x is dropped with the last of them that it is.
struct RoundedPair {
  MoeOperand rows;
  MoeOperand columns;
};
RoundedPair round_both(MoeBuilder& b, const char* name, const Part& x, std::int64_t cols, const MaybeRule& along_rows,
                       const MaybeRule& along_columns) {
  const MoeCall& c = b.call();
  const auto* const values = b.memory.at<const std::uint16_t>(x);
  RoundedPair pair{{values, {}}, {values, x}};
  if (!along_rows && !along_columns) return pair;
  RoundTripJob job;
  job.x = values, job.cols = cols, job.rows = b.routed_rows();
  const auto rounded = [&](Along along, const RoundRule& rule) -> MoeOperand {
    const Part part = b.memory.take(c.routed, 2 * cols);
    set_along(job, along, b.memory.at<std::uint16_t>(part), rule);
    return {b.memory.at<const std::uint16_t>(part), part};
  };
  if (along_rows) pair.rows = rounded(Along::rows, *along_rows);
  if (along_columns) pair.columns = rounded(Along::columns, *along_columns);
  if (!along_rows) pair.rows.part = x;
  add_round_trip(b, name, job, c.routed);
  if (along_rows && along_columns) b.memory.drop(x);
  return pair;
}

// ---- The steps ----

constexpr int kBand = 32;
constexpr TokenNames kX{"quantize X", "gather X"};
constexpr TokenNames kDO{"quantize dO", "gather dO"};

const MaybeRule& rule(MoeBuilder& b, RoundedOperand operand) { return b.call().recipe->rule(operand); }

// True if both GEMMs that read dO read it as it is.
bool shares_d_o(MoeBuilder& b) { return !rule(b, RoundedOperand::d_down_do) && !rule(b, RoundedOperand::d_w2_do); }

// X W1 to H, which is kept.
void add_up(MoeBuilder& b) {
  const MoeCall& c = b.call();
  const MoeOperand x = rows_of_tokens(b, kX, c.tensors.x, rule(b, RoundedOperand::up_x));
  const MoeOperand w1 =
      round_weights(b, "quantize W1", c.tensors.w1, c.d, 2 * c.n, Along::columns, rule(b, RoundedOperand::up_w1));
  add_m_grouped_gemm(b, {"up", x, w1, true, c.tensors.h.data, 2 * c.n, c.d, MatmulOutput::bf16});
  b.memory.drop(x.part), b.memory.drop(w1.part);
}

Part add_down(MoeBuilder& b, const Part& a) {
  const MoeCall& c = b.call();
  const MoeOperand rounded = round_routed(b, "quantize A", a, c.n, Along::rows, rule(b, RoundedOperand::down_a));
  const MoeOperand w2 =
      round_weights(b, "quantize W2", c.tensors.w2, c.n, c.d, Along::columns, rule(b, RoundedOperand::down_w2));
  const Part y = b.memory.take(c.routed, 2 * c.d);
  add_m_grouped_gemm(b, {"down", rounded, w2, true, b.memory.at<void>(y), c.d, c.n, MatmulOutput::bf16});
  b.memory.drop(rounded.part), b.memory.drop(w2.part);
  return y;
}

// dO stays where d_w2 reads it too.
Part add_d_down(MoeBuilder& b, const MoeOperand& d_o) {
  const MoeCall& c = b.call();
  const MoeOperand w2 =
      round_weights(b, "quantize W2", c.tensors.w2, c.n, c.d, Along::rows, rule(b, RoundedOperand::d_down_w2));
  const Part p = b.memory.take(c.routed, 4 * c.n);
  add_m_grouped_gemm(b, {"d_down", d_o, w2, false, b.memory.at<void>(p), c.n, c.d, MatmulOutput::fp32});
  b.memory.drop(w2.part);
  if (!shares_d_o(b)) b.memory.drop(d_o.part);
  return p;
}

// X or dO for the gradient of a weight.
MoeOperand along_tokens(MoeBuilder& b, const char* rounds, const char* copies, const Checked& x,
                        RoundedOperand operand) {
  if (const MaybeRule& of = rule(b, operand)) return round_gathered(b, rounds, x, *of);
  return gather_tokens(b, copies, data_of<const std::uint16_t>(x));
}

void add_d_w2(MoeBuilder& b, const Part& scaled_a, const MoeOperand& d_o_rows) {
  const MoeCall& c = b.call();
  const MoeOperand a =
      round_routed(b, "quantize A' along tokens", scaled_a, c.n, Along::columns, rule(b, RoundedOperand::d_w2_a));
  const MoeOperand d_o = shares_d_o(b) ? d_o_rows
                                       : along_tokens(b, "quantize dO along tokens", "gather dO for dW2", c.tensors.d_o,
                                                      RoundedOperand::d_w2_do);
  add_k_grouped_gemm(b, {"d_w2", a, d_o, data_of<float>(c.tensors.dw2), c.n, c.d});
  b.memory.drop(a.part), b.memory.drop(d_o.part);
}

Part add_d_up(MoeBuilder& b, const MoeOperand& dh) {
  const MoeCall& c = b.call();
  const Part dx = b.memory.take(c.routed, 2 * c.d);
  const MoeOperand w1 =
      round_weights(b, "quantize W1", c.tensors.w1, c.d, 2 * c.n, Along::rows, rule(b, RoundedOperand::d_up_w1));
  add_m_grouped_gemm(b, {"d_up", dh, w1, false, b.memory.at<void>(dx), c.d, 2 * c.n, MatmulOutput::bf16});
  b.memory.drop(w1.part), b.memory.drop(dh.part);
  return dx;
}

void add_d_w1(MoeBuilder& b, const MoeOperand& dh) {
  const MoeCall& c = b.call();
  const MoeOperand x = along_tokens(b, "quantize X along tokens", kX.copy, c.tensors.x, RoundedOperand::d_w1_x);
  add_k_grouped_gemm(b, {"d_w1", x, dh, data_of<float>(c.tensors.dw1), c.d, 2 * c.n});
  b.memory.drop(x.part), b.memory.drop(dh.part);
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
  const MoeOperand d_o = rows_of_tokens(b, kDO, call.tensors.d_o, rule(b, RoundedOperand::d_down_do));
  const Part p = add_d_down(b, d_o);
  const Part a = b.memory.take(call.routed, 2 * call.n);
  add_swiglu_backward(b, kept_h(call), p, {a, dh_values});
  b.memory.drop(p);
  add_d_w2(b, a, d_o);
  const RoundedPair dh = round_both(b, "quantize dH", dh_values, 2 * call.n, rule(b, RoundedOperand::d_up_dh),
                                    rule(b, RoundedOperand::d_w1_dh));
  const Part dx = add_d_up(b, dh.rows);
  add_d_w1(b, dh.columns);
  b.add_aggregate("d_aggregate", dx, call.tensors.dx, false);
  return b.finish();
}

}  // namespace mxcheck_kernels::sm90
