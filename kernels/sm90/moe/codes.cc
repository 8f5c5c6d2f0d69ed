// Layers whose GEMMs multiply FP8 codes. What is in the workspace beside results and gradients in BF16 and FP32:
//
//   forward   up: codes of W1, of X where it is not kept, and H where it is kept in E5M6. swiglu: codes of A (and A in
//             BF16, for one scale a tensor). down: codes of A and W2, Y. aggregate: Y.
//   backward  d_down: codes of dO and W2, P. swiglu_backward: P, H where it was kept in E5M6, codes of dH in both
//             directions, of A' along tokens (and both in BF16, where they are not made by tiles). d_w2: codes of A'
//             and dO along tokens. d_up: codes of dH and W1, dX~. d_w1: codes of X and dH along tokens, dX~.
//             d_aggregate: dX~.

#include "kernels/sm90/moe/passes.h"
#include "kernels/sm90/moe/quantize/keep.h"
#include "kernels/sm90/moe/steps/encode.h"
#include "kernels/sm90/moe/steps/matmul_codes.h"
#include "kernels/sm90/moe/steps/swiglu.h"
#include "kernels/sm90/moe/steps/swiglu_codes.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kBand = 128;
constexpr WeightNames kW1{"amax W1", "quantize W1"};
constexpr WeightNames kW2{"amax W2", "quantize W2"};

// X by token, where it is kept: in its own tensors.
MoeCodes encode_x(const MoeCoder& coder) {
  const MoeCall& c = coder.b.call();
  MoeCodes x;
  x.codes = data_of<std::uint8_t>(c.tensors.kept_x), x.scales = c.tensors.kept_scales.data, x.by_token = true;
  encode_rows(coder, "quantize X", {data_of<const std::uint16_t>(c.tensors.x), c.tokens, c.d}, x);
  return x;
}

// X W1 to H.
void add_up(MoeCoder& coder, void* h) {
  const MoeCall& c = coder.b.call();
  const MoeCodes x = encode_x(coder);
  const MoeCodes w1 = encode_weights(coder, kW1, c.tensors.w1, c.d, 2 * c.n, Turned::yes);
  add_rows_gemm(coder, {"up", x, w1, h, 2 * c.n, c.d, MatmulOutput::bf16});
  coder.drop(x), coder.drop(w1);
}

void add_keep(MoeBuilder& b, const std::uint16_t* h) {
  const MoeCall& c = b.call();
  const KeepJob job{
      h, data_of<std::uint8_t>(c.tensors.h), data_of<std::uint8_t>(c.tensors.h_scales), c.routed, 2 * c.n, b.header()};
  b.add("keep H", MoeStepKind::quantize, bytes_of(c.routed, c.n, 4) + c.tensors.h.bytes + c.tensors.h_scales.bytes,
        [job](cudaStream_t stream) { return launch_keep(job, stream); });
}

Part add_down(MoeCoder& coder, const MoeCodes& a) {
  const MoeCall& c = coder.b.call();
  const MoeCodes w2 = encode_weights(coder, kW2, c.tensors.w2, c.n, c.d, Turned::yes);
  const Part y = coder.b.memory.take(c.routed, 2 * c.d);
  add_rows_gemm(coder, {"down", a, w2, coder.b.memory.at<void>(y), c.d, c.n, MatmulOutput::bf16});
  coder.drop(a), coder.drop(w2);
  return y;
}

Part add_d_down(MoeCoder& coder) {
  const MoeCall& c = coder.b.call();
  const MoeCodes d_o = coder.take_rows(c.tokens, c.d, true);
  encode_rows(coder, "quantize dO", {data_of<const std::uint16_t>(c.tensors.d_o), c.tokens, c.d}, d_o);
  const MoeCodes w2 = encode_weights(coder, kW2, c.tensors.w2, c.n, c.d, Turned::no);
  const Part p = coder.b.memory.take(c.routed, 4 * c.n);
  add_rows_gemm(coder, {"d_down", d_o, w2, coder.b.memory.at<void>(p), c.n, c.d, MatmulOutput::fp32});
  coder.drop(d_o), coder.drop(w2);
  return p;
}

// H as it was kept, in BF16.
struct RestoredH {
  const std::uint16_t* h;
  Part part;
};
RestoredH restore_h(MoeBuilder& b) {
  const MoeCall& c = b.call();
  if (!c.recipe->keeps_e5m6) return {data_of<const std::uint16_t>(c.tensors.h), {}};
  const Part part = b.memory.take(c.routed, 4 * c.n);
  const RestoreJob job{data_of<const std::uint8_t>(c.tensors.h),
                       data_of<const std::uint8_t>(c.tensors.h_scales),
                       b.memory.at<std::uint16_t>(part),
                       c.routed,
                       2 * c.n,
                       b.header()};
  b.add("restore H", MoeStepKind::quantize, bytes_of(c.routed, c.n, 4) + c.tensors.h.bytes + c.tensors.h_scales.bytes,
        [job](cudaStream_t stream) { return launch_restore(job, stream); });
  return {job.h, part};
}

void add_d_w2(MoeCoder& coder, const MoeCodes& a) {
  const MoeCall& c = coder.b.call();
  const MoeCodes d_o = coder.take_columns(c.d);
  encode_columns(coder, "quantize dO along tokens", {data_of<const std::uint16_t>(c.tensors.d_o), c.tokens, c.d, true},
                 d_o);
  add_depth_gemm(coder, {"d_w2", a, d_o, data_of<float>(c.tensors.dw2), c.n, c.d});
  coder.drop(a), coder.drop(d_o);
}

Part add_d_up(MoeCoder& coder, const MoeCodes& dh) {
  const MoeCall& c = coder.b.call();
  const Part dx = coder.b.memory.take(c.routed, 2 * c.d);
  const MoeCodes w1 = encode_weights(coder, kW1, c.tensors.w1, c.d, 2 * c.n, Turned::no);
  add_rows_gemm(coder, {"d_up", dh, w1, coder.b.memory.at<void>(dx), c.d, 2 * c.n, MatmulOutput::bf16});
  coder.drop(w1), coder.drop(dh);
  return dx;
}

void add_d_w1(MoeCoder& coder, const MoeCodes& dh) {
  const MoeCall& c = coder.b.call();
  const MoeCodes x = coder.take_columns(c.d);
  encode_kept_x(coder, "quantize X along tokens", x);
  add_depth_gemm(coder, {"d_w1", x, dh, data_of<float>(c.tensors.dw1), c.d, 2 * c.n});
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
  if (keeps) add_keep(b, h);
  const MoeCodes a = coder.take_rows(call.routed, call.n, false);
  add_swiglu_codes(coder, h, a);
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
  gradients.dh = coder.take_rows(call.routed, 2 * call.n, false);
  gradients.a_columns = coder.take_columns(call.n);
  const Part p = add_d_down(coder);
  const RestoredH h = restore_h(b);
  add_swiglu_backward_codes(coder, h.h, p, gradients);
  b.memory.drop(p), b.memory.drop(h.part);
  add_d_w2(coder, gradients.a_columns);
  const Part dx = add_d_up(coder, gradients.dh);
  add_d_w1(coder, gradients.dh_columns);
  b.add_aggregate("d_aggregate", dx, call.tensors.dx, false);
  return b.finish();
}

}  // namespace mxcheck_kernels::sm90
