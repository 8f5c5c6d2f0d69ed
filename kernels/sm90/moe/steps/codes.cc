#include "kernels/sm90/moe/steps/codes.h"

#include <algorithm>

#include "kernels/sm90/moe/quantize/offsets.h"

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

MoeCodes MoeCoder::take(std::int64_t rows, std::int64_t cols, std::int64_t scale_rows) {
  MoeCodes x;
  x.code_part = b.memory.take(rows, cols);
  x.scale_part = b.memory.take(scale_rows, cols / kBlock * scale_bytes());
  x.codes = b.memory.at<std::uint8_t>(x.code_part), x.scales = b.memory.at<void>(x.scale_part);
  return x;
}

MoeCodes MoeCoder::take_rows(std::int64_t rows, std::int64_t cols) { return take(rows, cols, rows); }
MoeCodes MoeCoder::take_squares(std::int64_t rows, std::int64_t cols) { return take(rows, cols, rows / kBlock); }
MoeCodes MoeCoder::take_columns(std::int64_t cols) { return take(cols, stride_, cols); }

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

}  // namespace mxcheck_kernels::sm90
