#include "kernels/sm90/moe/moe_codes.h"

#include <algorithm>

#include "kernels/sm90/moe/moe_kernels.h"
#include "kernels/sm90/moe/square_codes.h"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kBlock = 128;
constexpr std::int64_t kMostRows = 2147483647;

// The sum over experts of multiples of 128, of which each is at most 127 more than the expert's rows, and 0 without.
std::int64_t stride_of(const MoeCall& c) {
  const std::int64_t most = c.routed + (kBlock - 1) * std::min(c.experts, c.routed);
  if (most <= kMostRows) return most / kBlock * kBlock;
  unsupported("policy.routed is " + std::to_string(c.routed) + ", of " + std::to_string(c.experts) +
              " experts: more than 2^31 - 1 rows, each expert's a multiple of 128, are not offered");
}

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

MoeCoder::MoeCoder(MoeBuilder& builder)
    : b(builder),
      coding_(device_coding({Element::e4m3, builder.call().recipe->scale, kBlock})),
      stride_(stride_of(builder.call())) {}

void MoeCoder::pad_offsets() {
  const MoeCall& c = b.call();
  auto* const to = b.memory.at<std::int64_t>(b.memory.take(c.experts + 1, 8));
  const auto* const from = data_of<const std::int64_t>(c.tensors.offsets);
  padded_ = to;
  b.add("pad offsets", MoeStepKind::check, bytes_of(c.experts + 1, 2, 8),
        [from, to, experts = c.experts, header = b.header()](cudaStream_t stream) {
          return launch_padded_offsets(from, experts, to, header, stream);
        });
}

namespace {

MoeCodes take(Arena& memory, std::int64_t rows, std::int64_t cols, std::int64_t scale_rows, std::int64_t scale_bytes) {
  MoeCodes x;
  x.code_part = memory.take(rows, cols);
  x.scale_part = memory.take(scale_rows, cols / kBlock * scale_bytes);
  x.codes = memory.at<std::uint8_t>(x.code_part), x.scales = memory.at<void>(x.scale_part);
  return x;
}

}  // namespace

MoeCodes take_squares(Arena& memory, std::int64_t rows, std::int64_t cols, std::int64_t scale_bytes) {
  return take(memory, rows, cols, rows / kBlock, scale_bytes);
}

MoeCodes MoeCoder::take_rows(std::int64_t rows, std::int64_t cols) {
  return take(b.memory, rows, cols, rows, scale_bytes());
}
MoeCodes MoeCoder::take_columns(std::int64_t cols) { return take(b.memory, cols, stride_, cols, scale_bytes()); }

MoeCodes MoeCoder::take_weights(std::int64_t rows, std::int64_t cols) {
  MoeCodes x = take_squares(b.weights(), rows, cols, scale_bytes());
  x.code_part = b.droppable(x.code_part), x.scale_part = b.droppable(x.scale_part);
  return x;
}

void MoeCoder::drop(const MoeCodes& x) { b.memory.drop(x.code_part), b.memory.drop(x.scale_part); }

std::uint64_t MoeCoder::bytes_of_rows(std::int64_t rows, std::int64_t cols) const {
  return bytes_of(rows, cols, 1) + bytes_of(rows, cols / kBlock, scale_bytes());
}
std::uint64_t MoeCoder::bytes_of_squares(std::int64_t rows, std::int64_t cols) const {
  return bytes_of(rows, cols, 1) + bytes_of(rows / kBlock, cols / kBlock, scale_bytes());
}

RowCodes MoeCoder::row_codes(const MoeCodes& x, std::int64_t cols) const {
  return {x.codes, x.scales, cols / kBlock, coding_};
}

ColumnCodes MoeCoder::column_codes(const MoeCodes& x) const {
  ColumnCodes to;
  to.codes = x.codes, to.scales = x.scales, to.bands = bands(), to.coding = coding_;
  to.stride = stride_, to.padded = true;
  return to;
}

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
                        std::int64_t cols, Transposed transposed) {
  const MoeCall& c = coder.b.call();
  Arena& memory = coder.b.memory;
  const std::int64_t all = c.experts * rows;
  const MoeCodes to =
      transposed == Transposed::yes ? coder.take_weights(c.experts * cols, rows) : coder.take_weights(all, cols);
  if (!c.quantizes_weights()) return to;
  Part amax;
  if (c.recipe->operands == MoeOperands::tensors) {
    amax = add_amax(coder, names.amax, data_of<const std::uint16_t>(w), all, cols);
  }
  SquareJob job;
  job.x = data_of<const std::uint16_t>(w), job.cols = cols, job.expert_rows = rows;
  job.rows = coder.b.plain_rows(all);
  job.coding = coder.coding(), job.amax = memory.at<const float>(amax);
  job.kind = SquareScales::shared;
  if (transposed == Transposed::yes) {
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

void add_m_grouped_gemm(const MoeCoder& coder, const CodedMGroupedGemm& gemm) {
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

void add_k_grouped_gemm(const MoeCoder& coder, const CodedKGroupedGemm& gemm) {
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
