#include "kernels/sm90/moe/steps/encode.h"

#include <algorithm>

#include "kernels/sm90/moe/quantize/square.h"
#include "kernels/sm90/moe/steps/gather.h"

namespace mxcheck_kernels::sm90 {
namespace {

// Each row read once: of those that are gathered there may be fewer.
std::uint64_t source_bytes(const MoeCall& c, const CodeSource& from, std::int64_t row_bytes) {
  if (!from.gathered) return bytes_of(from.rows, row_bytes, 1);
  return bytes_of(std::min(from.rows, c.routed), row_bytes, 1) + bytes_of(c.routed, 1, 4);
}

const std::int32_t* index_of(const MoeCall& c, bool gathered) {
  return gathered ? data_of<const std::int32_t>(c.tensors.row_token) : nullptr;
}

void add(const MoeCoder& coder, const char* name, std::uint64_t bytes, const SquareJob& job) {
  coder.b.add(name, MoeStepKind::quantize, bytes, [job](cudaStream_t stream) {
    return job.rows.rows == 0 || job.cols == 0 ? cudaSuccess : launch_square(job, stream);
  });
}

void add(const MoeCoder& coder, const char* name, std::uint64_t bytes, const TransposeJob& job) {
  coder.b.add(name, MoeStepKind::quantize, bytes, [job](cudaStream_t stream) {
    return job.rows.rows == 0 || job.cols == 0 ? cudaSuccess : launch_transpose(job, true, stream);
  });
}

}  // namespace

void encode_rows(const MoeCoder& coder, const char* name, const CodeSource& from, const MoeCodes& to) {
  const EncodeRowsJob job{from.x, from.rows, from.cols, coder.row_codes(to, from.cols), coder.b.header()};
  const std::uint64_t bytes = bytes_of(from.rows, from.cols, 2) + coder.bytes_of_rows(from.rows, from.cols);
  coder.b.add(name, MoeStepKind::quantize, bytes,
              [job](cudaStream_t stream) { return launch_encode_rows(job, stream); });
}

MoeCodes gather_codes(MoeCoder& coder, const char* name, const MoeCodes& x, std::int64_t cols) {
  const MoeCodes to = coder.take_rows(coder.b.call().routed, cols);
  add_gather(coder.b, name, {x.codes, to.codes, cols}, {x.scales, to.scales, cols / 128 * coder.scale_bytes()});
  coder.drop(x);
  return to;
}

void encode_columns(const MoeCoder& coder, const char* name, const CodeSource& from, const MoeCodes& to) {
  const MoeCall& c = coder.b.call();
  TransposeJob job;
  job.x = from.x, job.stride = job.cols = from.cols;
  job.index = index_of(c, from.gathered);
  job.rows = coder.b.routed_rows();
  job.out = coder.column_codes(to);
  add(coder, name, source_bytes(c, from, 2 * from.cols) + coder.bytes_of_rows(from.cols, coder.stride()), job);
}

void encode_kept_x(const MoeCoder& coder, const char* name, const MoeCodes& to) {
  const MoeCall& c = coder.b.call();
  TransposeJob job;
  job.x = c.tensors.kept_x.data, job.stride = job.cols = c.d;
  job.scales = c.tensors.kept_scales.data, job.scale_blocks = c.d / 128, job.e8m0 = coder.e8m0();
  job.index = index_of(c, true);
  job.rows = coder.b.routed_rows();
  job.out = coder.column_codes(to);
  const CodeSource from{nullptr, c.tokens, c.d, true, nullptr};
  const std::int64_t row_bytes = c.d + c.d / 128 * coder.scale_bytes();
  add(coder, name, source_bytes(c, from, row_bytes) + coder.bytes_of_rows(c.d, coder.stride()), job);
}

void encode_squares(const MoeCoder& coder, const char* name, const CodeSource& from, const MoeCodes* rows,
                    const MoeCodes* columns) {
  const MoeCall& c = coder.b.call();
  SquareJob job;
  job.x = from.x, job.cols = from.cols, job.coding = coder.coding(), job.amax = from.amax;
  job.index = index_of(c, from.gathered);
  job.rows = columns == nullptr ? coder.b.plain_rows(from.rows) : coder.b.routed_rows();
  job.kind = SquareScales::each;
  std::uint64_t bytes = source_bytes(c, from, 2 * from.cols);
  if (rows != nullptr) {
    job.codes = rows->codes, job.scales = rows->scales;
    bytes += coder.bytes_of_rows(job.rows.rows, from.cols);
  }
  if (columns != nullptr) {
    job.transposed = columns->codes, job.transposed_scales = columns->scales;
    job.stride = coder.stride(), job.bands = coder.bands();
    bytes += coder.bytes_of_rows(from.cols, coder.stride());
  }
  add(coder, name, bytes, job);
}

MoeCodes encode_weights(MoeCoder& coder, const WeightNames& names, const Checked& w, std::int64_t rows,
                        std::int64_t cols, Turned turned) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const std::int64_t all = c.experts * rows;
  const MoeCodes to =
      turned == Turned::yes ? coder.take_squares(c.experts * cols, rows) : coder.take_squares(all, cols);
  Part amax;
  if (c.recipe->operands == MoeOperands::tensors) {
    amax = add_amax(coder, names.amax, data_of<const std::uint16_t>(w), all, cols);
  }
  SquareJob job;
  job.x = data_of<const std::uint16_t>(w), job.cols = cols, job.expert_rows = rows;
  job.rows = coder.b.plain_rows(all);
  job.coding = coder.coding(), job.amax = memory.at<const float>(amax);
  job.kind = SquareScales::shared;
  if (turned == Turned::yes) {
    job.transposed = to.codes, job.transposed_scales = to.scales;
  } else {
    job.codes = to.codes, job.scales = to.scales;
  }
  add(coder, names.codes, bytes_of(all, cols, 2) + coder.bytes_of_squares(all, cols), job);
  memory.drop(amax);
  return to;
}

Part add_amax(const MoeCoder& coder, const char* name, const std::uint16_t* x, std::int64_t rows, std::int64_t cols) {
  const Part part = coder.b.memory.take(1, sizeof(float));
  const AmaxJob job{x, rows * cols, coder.b.memory.at<float>(part), coder.b.header()};
  coder.b.add(name, MoeStepKind::quantize, bytes_of(rows, cols, 2) + sizeof(float),
              [job](cudaStream_t stream) { return launch_amax(job, stream); });
  return part;
}

}  // namespace mxcheck_kernels::sm90
