// The forward pass of layers whose GEMMs multiply FP8 codes. Where H is kept in E5M6, "swiglu" writes that in its read
// of H. In the workspace while a step later reads it:
//
//   gather X   codes of X, by tokens where they are not kept and by rows
//   up         codes of X by rows and of W1, and H where it is kept in E5M6
//   swiglu     H, codes of A, and A in BF16 where one scale is the whole tensor's
//   down       codes of A and W2, Y
//   aggregate  Y

#include "kernels/sm90/moe/passes.h"
#include "kernels/sm90/moe/steps/encode.h"
#include "kernels/sm90/moe/steps/matmul_codes.h"
#include "kernels/sm90/moe/steps/swiglu.h"
#include "kernels/sm90/moe/steps/swiglu_codes.h"

namespace mxcheck_kernels::sm90 {
namespace {

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
  const MoeCodes w1 = encode_weights(coder, kW1, c.tensors.w1, c.d, 2 * c.n, Turned::yes);
  add_rows_gemm(coder, {"up", x, w1, h, 2 * c.n, c.d, MatmulOutput::bf16});
  coder.drop(x), coder.drop(w1);
}

Part add_down(MoeCoder& coder, const MoeCodes& a) {
  const MoeCall& c = coder.b.call();
  const MoeCodes w2 = encode_weights(coder, kW2, c.tensors.w2, c.n, c.d, Turned::yes);
  const Part y = coder.b.memory.take(c.routed, 2 * c.d);
  add_rows_gemm(coder, {"down", a, w2, coder.b.memory.at<void>(y), c.d, c.n, MatmulOutput::bf16});
  coder.drop(a), coder.drop(w2);
  return y;
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

}  // namespace mxcheck_kernels::sm90
