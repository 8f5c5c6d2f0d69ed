// Layers whose GEMMs multiply FP8 codes: what lies in the workspace, and the steps of both passes.
//
// Forward. Where H is kept in E5M6, "swiglu" writes that in its read of H. In the workspace while a step later reads
// it:
//
//   gather X   codes of X, by tokens where they are not kept and by rows
//   up         codes of X by rows and of W1, and H where it is kept in E5M6
//   swiglu     H, codes of A, and A in BF16 where one scale is the whole tensor's
//   down       codes of A and W2, Y
//   aggregate  Y
//
// Backward. In the workspace while a step later reads it:
//
//   d_down           codes of dO and W2, P; codes of dO along tokens, where they are made with the others
//   swiglu_backward  P, codes of dH in both directions and of A' along tokens; A' and dH in BF16, where codes are not
//                    made by tiles
//   d_w2             codes of A' and dO along tokens
//   d_up             codes of dH and W1, dX~
//   d_w1             codes of X and dH along tokens, dX~
//   d_aggregate      dX~

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/moe_codes.h"
#include "kernels/sm90/moe/moe_kernels.h"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- SwiGLU and its gradient with codes of their results in blocks of 1 x 128 ----

// dH along its rows, dH and A' along tokens.
struct CodedGradients {
  MoeCodes dh;
  MoeCodes dh_columns;
  MoeCodes a_columns;
};

// Bytes of H, P and the routes' weights, which SwiGLU's gradient reads, and of dS.
std::uint64_t gradient_bytes(const MoeCall& c, const HInput& h) {
  return h_bytes(c, h) + bytes_of(c.routed, c.n, 4) + bytes_of(c.routed, 1, 8);
}

void add_tiles(const MoeCoder& coder, const RowsJob& rows, const CodedGradients& to) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const Part sums = memory.take(1, static_cast<std::int64_t>(sums_bytes(c.routed, c.n, kTilePart)));
  BackwardTilesJob job{rows, coder.b.routed_rows(), coder.column_codes(to.a_columns),
                       coder.column_codes(to.dh_columns)};
  job.rows.sums = memory.at<float>(sums);
  const std::uint64_t bytes =
      gradient_bytes(c, rows.h) + coder.bytes_of_rows(c.routed, 2 * c.n) + coder.bytes_of_rows(3 * c.n, coder.stride());
  coder.b.add("swiglu_backward", MoeStepKind::elementwise, bytes,
              [job](cudaStream_t stream) { return launch_backward_tiles(job, true, stream); });
  memory.drop(sums);
}

void add_rows(const MoeCoder& coder, RowsJob job, const CodedGradients& to) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const Part a = memory.take(c.routed, 2 * c.n);
  const Part dh = memory.take(c.routed, 4 * c.n);
  const Part sums = memory.take(1, static_cast<std::int64_t>(sums_bytes(c.routed, c.n, kRowPart)));
  job.a = memory.at<std::uint16_t>(a), job.dh = memory.at<std::uint16_t>(dh), job.sums = memory.at<float>(sums);
  coder.b.add("swiglu_backward", MoeStepKind::elementwise,
              gradient_bytes(c, job.h) + bytes_of(c.routed, c.n, 6) + coder.bytes_of_rows(c.routed, 2 * c.n),
              [job](cudaStream_t stream) { return launch_backward_rows(job, true, stream); });
  memory.drop(sums);
  encode_columns(coder, "quantize A' along tokens", {job.a, c.routed, c.n}, to.a_columns);
  encode_columns(coder, "quantize dH along tokens", {job.dh, c.routed, 2 * c.n}, to.dh_columns);
  memory.drop(a), memory.drop(dh);
}

// A [routed, n] of H in BF16; where the recipe keeps H in E5M6, that too.
void add_swiglu_codes(const MoeCoder& coder, const std::uint16_t* h, const MoeCodes& a) {
  const MoeCall& c = coder.b.call();
  RowsJob job;
  job.h = bf16_h(c, h);
  job.rows = c.routed, job.n = c.n;
  job.row = coder.row_codes(a, c.n);
  job.header = coder.b.header();
  const std::uint64_t bytes = bytes_of(c.routed, c.n, 4) + coder.bytes_of_rows(c.routed, c.n);
  if (c.recipe->keeps_e5m6) {
    const KeepJob keep{job, data_of<std::uint8_t>(c.tensors.h), data_of<std::uint8_t>(c.tensors.h_scales)};
    coder.b.add("swiglu", MoeStepKind::elementwise, bytes + c.tensors.h.bytes + c.tensors.h_scales.bytes,
                [keep](cudaStream_t stream) { return launch_keep(keep, stream); });
    return;
  }
  coder.b.add("swiglu", MoeStepKind::elementwise, bytes,
              [job](cudaStream_t stream) { return launch_forward_rows(job, true, stream); });
}

// SwiGLU's gradient in one step where a tile of 128 rows can be made whole, else with steps for what lies along tokens.
void add_swiglu_backward_codes(const MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to) {
  const MoeCall& c = coder.b.call();
  RowsJob job;
  job.h = h;
  job.h.packed = h.packed && c.n != 0;  // packed H comes with codes of dH, and there are none: dS alone is written
  job.rows = c.routed, job.n = c.n;
  job.p = coder.b.memory.at<const float>(p), job.weights = data_of<const float>(c.tensors.row_weight);
  job.ds = data_of<float>(c.tensors.ds);
  job.row = coder.row_codes(to.dh, 2 * c.n);
  job.header = coder.b.header();
  // Tiles are of 64 columns: without any (n is 0) they would not write dS.
  takes_tiles(job.h, c.n, job.row.coding.block) ? add_tiles(coder, job, to) : add_rows(coder, job, to);
}

// ---- dO and the gradients of SwiGLU as the GEMMs read them: in blocks of one row or column, in squares, or with one
// scale a tensor, as the recipe says ----

enum class Blocks : std::uint8_t { lines, squares, tensors };

Blocks blocks_of_gradients(const MoeCall& c) {
  if (c.recipe->operands == MoeOperands::tensors) return Blocks::tensors;
  return c.recipe->square_gradients ? Blocks::squares : Blocks::lines;
}

CodeSource source_of_d_o(const MoeCall& c) { return {data_of<const std::uint16_t>(c.tensors.d_o), c.tokens, c.d}; }

// A' and dH in BF16, then to codes.
void add_gradients_in_bf16(MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const SwigluGradients values{memory.take(c.routed, 2 * c.n), memory.take(c.routed, 4 * c.n)};
  add_swiglu_backward(coder.b, h, p, values);
  CodeSource a{memory.at<const std::uint16_t>(values.a), c.routed, c.n};
  CodeSource dh{memory.at<const std::uint16_t>(values.dh), c.routed, 2 * c.n};
  if (blocks_of_gradients(c) == Blocks::squares) {
    encode_columns(coder, "quantize A' along tokens", a, to.a_columns);
    encode_squares(coder, "quantize dH", dh, &to.dh, &to.dh_columns);
  } else {
    const Part of_a = add_amax(coder, "amax A'", a.x, a.rows, a.cols);
    a.amax = memory.at<const float>(of_a);
    encode_squares(coder, "quantize A' along tokens", a, nullptr, &to.a_columns);
    const Part of_dh = add_amax(coder, "amax dH", dh.x, dh.rows, dh.cols);
    dh.amax = memory.at<const float>(of_dh);
    encode_squares(coder, "quantize dH", dh, &to.dh, &to.dh_columns);
    memory.drop(of_a), memory.drop(of_dh);
  }
  memory.drop(values.a), memory.drop(values.dh);
}

// The codes of dO for d_down and d_w2. Squares are made for both at once; else `columns` is not there yet.
struct OutputGradient {
  MoeCodes rows;
  MoeCodes columns;
  Part amax;  // of the whole tensor
};
OutputGradient encode_d_o(MoeCoder& coder) {
  const MoeCall& c = coder.b.call();
  CodeSource from = source_of_d_o(c);
  OutputGradient to;
  switch (blocks_of_gradients(c)) {
    case Blocks::lines:
      to.rows = coder.take_rows(c.tokens, c.d);
      encode_rows(coder, "quantize dO", from, to.rows);
      to.rows = gather_codes(coder, "gather dO", to.rows, c.d);
      break;
    case Blocks::squares:
      to.columns = coder.take_columns(c.d);
      to.rows = coder.take_rows(c.routed, c.d);
      from.gathered = true;
      encode_squares(coder, "quantize dO", from, &to.rows, &to.columns);
      break;
    case Blocks::tensors:
      to.amax = add_amax(coder, "amax dO", from.x, from.rows, from.cols);
      to.rows = coder.take_rows(c.tokens, c.d);
      from.amax = coder.b.memory.at<const float>(to.amax);
      encode_squares(coder, "quantize dO", from, &to.rows, nullptr);
      to.rows = gather_codes(coder, "gather dO", to.rows, c.d);
      break;
  }
  return to;
}

// The columns, where they are not there.
void encode_d_o_columns(MoeCoder& coder, OutputGradient& d_o) {
  const MoeCall& c = coder.b.call();
  const Blocks blocks = blocks_of_gradients(c);
  if (blocks == Blocks::squares) return;
  CodeSource from = source_of_d_o(c);
  from.gathered = true;
  d_o.columns = coder.take_columns(c.d);
  if (blocks == Blocks::lines) {
    encode_columns(coder, "quantize dO along tokens", from, d_o.columns);
    return;
  }
  from.amax = coder.b.memory.at<const float>(d_o.amax);
  encode_squares(coder, "quantize dO along tokens", from, nullptr, &d_o.columns);
  coder.b.memory.drop(d_o.amax);
}

// "swiglu_backward" of H and P, and what its results need.
void add_gradients(MoeCoder& coder, const HInput& h, const Part& p, const CodedGradients& to) {
  if (blocks_of_gradients(coder.b.call()) == Blocks::lines) {
    add_swiglu_backward_codes(coder, h, p, to);
  } else {
    add_gradients_in_bf16(coder, h, p, to);
  }
}

// ---- Forward ----

constexpr int kBand = 128;
constexpr WeightNames kW1{"amax W1", "quantize W1"};
constexpr WeightNames kW2{"amax W2", "quantize W2"};

bool has_tensor_scales(const MoeCoder& coder) { return coder.b.call().recipe->operands == MoeOperands::tensors; }

// X by token: where its codes are kept, in their own tensors, which are not the arena's.
MoeCodes encode_x(MoeCoder& coder) {
  const MoeCall& c = coder.b.call();
  const auto* const x = data_of<const std::uint16_t>(c.tensors.x);
  if (has_tensor_scales(coder)) {
    MoeCodes to = coder.take_rows(c.tokens, c.d);
    const Part amax = add_amax(coder, "amax X", x, c.tokens, c.d);
    encode_squares(coder, "quantize X", {x, c.tokens, c.d, false, coder.b.memory.at<const float>(amax)}, &to, nullptr);
    coder.b.memory.drop(amax);
    return to;
  }
  MoeCodes to;
  to.codes = data_of<std::uint8_t>(c.tensors.kept_x), to.scales = c.tensors.kept_scales.data;
  encode_rows(coder, "quantize X", {x, c.tokens, c.d}, to);
  return to;
}

// A by its routed rows.
MoeCodes encode_a(MoeCoder& coder, const std::uint16_t* h) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const MoeCodes to = coder.take_rows(c.routed, c.n);
  if (!has_tensor_scales(coder)) {
    add_swiglu_codes(coder, h, to);
    return to;
  }
  const Part values = memory.take(c.routed, 2 * c.n);
  add_swiglu(coder.b, h, values);
  const auto* const a = memory.at<const std::uint16_t>(values);
  const Part amax = add_amax(coder, "amax A", a, c.routed, c.n);
  encode_squares(coder, "quantize A", {a, c.routed, c.n, false, memory.at<const float>(amax)}, &to, nullptr);
  memory.drop(amax), memory.drop(values);
  return to;
}

// X W1 to H.
void add_up(MoeCoder& coder, void* h) {
  const MoeCall& c = coder.b.call();
  const MoeCodes x = gather_codes(coder, "gather X", encode_x(coder), c.d);
  const MoeCodes w1 = encode_weights(coder, kW1, c.tensors.w1, c.d, 2 * c.n, Transposed::yes);
  add_m_grouped_gemm(coder, {"up", x, w1, h, 2 * c.n, c.d, MatmulOutput::bf16});
  coder.drop(x), coder.drop(w1);
}

Part add_down(MoeCoder& coder, const MoeCodes& a) {
  const MoeCall& c = coder.b.call();
  const MoeCodes w2 = encode_weights(coder, kW2, c.tensors.w2, c.n, c.d, Transposed::yes);
  const Part y = coder.b.memory.take(c.routed, 2 * c.d);
  add_m_grouped_gemm(coder, {"down", a, w2, coder.b.memory.at<void>(y), c.d, c.n, MatmulOutput::bf16});
  coder.drop(a), coder.drop(w2);
  return y;
}

// ---- Backward ----

Part add_d_down(MoeCoder& coder, const MoeCodes& d_o) {
  const MoeCall& c = coder.b.call();
  const MoeCodes w2 = encode_weights(coder, kW2, c.tensors.w2, c.n, c.d, Transposed::no);
  const Part p = coder.b.memory.take(c.routed, 4 * c.n);
  add_m_grouped_gemm(coder, {"d_down", d_o, w2, coder.b.memory.at<void>(p), c.n, c.d, MatmulOutput::fp32});
  coder.drop(d_o), coder.drop(w2);
  return p;
}

void add_d_w2(MoeCoder& coder, const MoeCodes& a, const MoeCodes& d_o) {
  const MoeCall& c = coder.b.call();
  add_k_grouped_gemm(coder, {"d_w2", a, d_o, data_of<float>(c.tensors.dw2), c.n, c.d});
  coder.drop(a), coder.drop(d_o);
}

Part add_d_up(MoeCoder& coder, const MoeCodes& dh) {
  const MoeCall& c = coder.b.call();
  const Part dx = coder.b.memory.take(c.routed, 2 * c.d);
  const MoeCodes w1 = encode_weights(coder, kW1, c.tensors.w1, c.d, 2 * c.n, Transposed::no);
  add_m_grouped_gemm(coder, {"d_up", dh, w1, coder.b.memory.at<void>(dx), c.d, 2 * c.n, MatmulOutput::bf16});
  coder.drop(w1), coder.drop(dh);
  return dx;
}

// X along tokens from what was kept: codes, or BF16 and one scale.
void add_d_w1(MoeCoder& coder, const MoeCodes& dh) {
  const MoeCall& c = coder.b.call();
  const MoeCodes x = coder.take_columns(c.d);
  if (c.recipe->keeps_codes()) {
    encode_kept_x(coder, "quantize X along tokens", x);
  } else {
    const auto* const values = data_of<const std::uint16_t>(c.tensors.x);
    const Part amax = add_amax(coder, "amax X", values, c.tokens, c.d);
    const CodeSource from{values, c.tokens, c.d, true, coder.b.memory.at<const float>(amax)};
    encode_squares(coder, "quantize X along tokens", from, nullptr, &x);
    coder.b.memory.drop(amax);
  }
  add_k_grouped_gemm(coder, {"d_w1", x, dh, data_of<float>(c.tensors.dw1), c.d, 2 * c.n});
  coder.drop(x), coder.drop(dh);
}

}  // namespace

MoePlan forward_of_codes(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  MoeCoder coder(b);
  const bool keeps = call.recipe->keeps_e5m6;
  const Part h_part = keeps ? b.memory.take(call.routed, 4 * call.n) : Part{};
  auto* const h = keeps ? b.memory.at<std::uint16_t>(h_part) : data_of<std::uint16_t>(call.tensors.h);
  add_up(coder, h);
  const MoeCodes a = encode_a(coder, h);
  b.memory.drop(h_part);
  const Part y = add_down(coder, a);
  b.add_aggregate("aggregate", y, call.tensors.o, true);
  return b.finish();
}

MoePlan backward_of_codes(const MoeCall& call) {
  MoeBuilder b(call, kBand);
  MoeCoder coder(b);
  coder.pad_offsets();
  // In front: they outlive what follows, the first longest.
  CodedGradients gradients;
  gradients.dh_columns = coder.take_columns(2 * call.n);
  gradients.dh = coder.take_rows(call.routed, 2 * call.n);
  gradients.a_columns = coder.take_columns(call.n);
  OutputGradient d_o = encode_d_o(coder);
  const Part p = add_d_down(coder, d_o.rows);
  add_gradients(coder, kept_h(call), p, gradients);
  b.memory.drop(p);
  encode_d_o_columns(coder, d_o);
  add_d_w2(coder, gradients.a_columns, d_o.columns);
  const Part dx = add_d_up(coder, gradients.dh);
  add_d_w1(coder, gradients.dh_columns);
  b.add_aggregate("d_aggregate", dx, call.tensors.dx, false);
  return b.finish();
}

}  // namespace mxcheck_kernels::sm90
