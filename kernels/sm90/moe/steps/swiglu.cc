#include "kernels/sm90/moe/steps/swiglu.h"

#include "kernels/sm90/layer/steps/steps.h"

namespace mxcheck_kernels::sm90 {

HInput bf16_h(const MoeCall& call, const std::uint16_t* h) {
  HInput input;
  input.data = h, input.stride = 2 * call.n, input.interleaved = call.interleaved;
  return input;
}

HInput kept_h(const MoeCall& call) {
  if (!call.recipe->keeps_e5m6) return bf16_h(call, data_of<const std::uint16_t>(call.tensors.h));
  HInput input;
  input.data = call.tensors.h.data, input.scales = data_of<const std::uint8_t>(call.tensors.h_scales);
  input.stride = 2 * call.n, input.interleaved = call.interleaved, input.packed = true;
  return input;
}

std::uint64_t h_bytes(const MoeCall& call, const HInput& h) {
  return h.packed ? call.tensors.h.bytes + call.tensors.h_scales.bytes : bytes_of(call.routed, call.n, 4);
}

void add_swiglu(MoeBuilder& b, const std::uint16_t* h, const Part& a) {
  const MoeCall& c = b.call();
  RowsJob job;
  job.h = bf16_h(c, h);
  job.rows = c.routed, job.n = c.n;
  job.a = b.memory.at<std::uint16_t>(a);
  job.header = b.header();
  b.add("swiglu", MoeStepKind::elementwise, bytes_of(c.routed, c.n, 6),
        [job](cudaStream_t stream) { return launch_forward_rows(job, true, stream); });
}

void add_swiglu_backward(MoeBuilder& b, const HInput& h, const Part& p, const SwigluGradients& to) {
  const MoeCall& c = b.call();
  const Part sums = b.memory.take(1, static_cast<std::int64_t>(sums_bytes(c.routed, c.n, kRowPart)));
  RowsJob job;
  job.h = h;
  job.rows = c.routed, job.n = c.n;
  job.p = b.memory.at<const float>(p), job.weights = data_of<const float>(c.tensors.row_weight);
  job.a = b.memory.at<std::uint16_t>(to.a), job.dh = b.memory.at<std::uint16_t>(to.dh);
  job.ds = data_of<float>(c.tensors.ds), job.sums = b.memory.at<float>(sums);
  job.header = b.header();
  b.add("swiglu_backward", MoeStepKind::elementwise,
        h_bytes(c, h) + bytes_of(c.routed, c.n, 10) + bytes_of(c.routed, 1, 8),
        [job](cudaStream_t stream) { return launch_backward_rows(job, true, stream); });
  b.memory.drop(sums);
}

}  // namespace mxcheck_kernels::sm90
