#include "kernels/sm90/moe/steps/swiglu_codes.h"

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/quantize/keep.h"
#include "kernels/sm90/moe/steps/encode.h"
#include "kernels/sm90/moe/steps/swiglu.h"

namespace mxcheck_kernels::sm90 {
namespace {

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

}  // namespace

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

}  // namespace mxcheck_kernels::sm90
