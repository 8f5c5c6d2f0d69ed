#include "tools/common/panels.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "bindings/simd/simd.h"
#include "goldens/data/embedded.h"
#include "numerics/error.h"
#include "properties/core/rng.h"

namespace mxcheck {

std::vector<PanelRange> panels(const std::vector<std::int64_t>& starts, std::int64_t row_bytes) {
  const std::int64_t most = std::max<std::int64_t>(1, kPanelBytes / std::max<std::int64_t>(1, row_bytes));
  std::vector<PanelRange> all;
  for (std::size_t at = 0; at + 1 < starts.size(); at = all.back().end) {
    std::size_t end = at + 1;
    while (end + 1 < starts.size() && starts[end + 1] - starts[at] <= most) ++end;
    all.push_back({at, end});
  }
  return all;
}

std::vector<std::int64_t> offsets_within(std::span<const std::int64_t> offsets, std::int64_t first, std::int64_t rows) {
  if (offsets.empty()) return {};
  std::vector<std::int64_t> within{0};
  for (const std::int64_t offset : offsets) {
    if (offset > first && offset < first + rows) within.push_back(offset - first);
  }
  within.push_back(rows);
  return within;
}

bool is_checked(std::size_t row_of_blocks) { return mix64(row_of_blocks) % 64 == 0; }

void refuse_difference(std::int64_t begin, std::int64_t end) {
  throw Error(
      ErrorKind::internal,
      fmt::format("the SIMD library and the reference differ in rows {} to {}: this is a fault of mxcheck, or of "
                  "the processor; nothing is written",
                  begin, end - 1));
}

namespace {

Format matrix_dtype(const MatrixInput& o, const TensorHead& tensor) {
  if (!o.dtype.empty()) {
    if (tensor.dtype != Format::uint16) {
      refuse_usage("--dtype " + o.dtype + " reinterprets 16-bit unsigned integers; " + o.location + " holds " +
                   safetensors_name(tensor.dtype));
    }
    return o.dtype == "bf16" ? Format::bf16 : Format::fp16;
  }
  if (tensor.dtype == Format::fp32) return Format::fp32;
  if (tensor.dtype == Format::bf16) return Format::bf16;
  if (tensor.dtype == Format::fp16) return Format::fp16;
  std::string hint = tensor.dtype == Format::fp64 ? "; convert it to F32 first, so that the rounding is yours" : "";
  if (tensor.dtype == Format::uint16) hint = "; if these are the bits of BF16, say --dtype bf16";
  throw Error(ErrorKind::input,
              o.location + ": has dtype " + safetensors_name(tensor.dtype) + "; F32, BF16 or F16 is needed" + hint);
}

}  // namespace

MatrixHead matrix_head(const MatrixInput& o, const TensorHead& tensor) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  MatrixHead head;
  head.dtype = matrix_dtype(o, tensor);
  const std::string rank = o.location + ": has " + std::to_string(shape.size()) + " dimensions; ";
  if (o.index && shape.size() != 3) throw Error(ErrorKind::input, rank + "--index picks a matrix out of three");
  if (!o.index && shape.size() == 3) {
    throw Error(ErrorKind::input, rank + "two are needed: pick one of its " + std::to_string(shape[0]) +
                                      " matrices with --index I, or reshape it");
  }
  if (!o.index && shape.size() != 2) throw Error(ErrorKind::input, rank + "two are needed: reshape it to [rows, cols]");
  head.rows = shape[shape.size() - 2];
  head.cols = shape[shape.size() - 1];
  if (o.index) {
    if (*o.index < 0 || *o.index >= shape[0]) {
      refuse_usage("--index " + std::to_string(*o.index) + ": " + o.location + " holds matrices 0 to " +
                   std::to_string(shape[0] - 1));
    }
    head.bytes_before = *o.index * head.rows * head.cols * static_cast<std::int64_t>(size_of(tensor.dtype));
  }
  return head;
}

MatrixView matrix_of(const MatrixInput& o, const Tensor& tensor) {
  const MatrixHead head = matrix_head(o, {tensor.format, tensor.shape});
  return {head.dtype, tensor.data.data() + head.bytes_before, head.rows, head.cols, head.cols};
}

MatrixPanels::MatrixPanels(MatrixInput input) : input_(std::move(input)) { open(); }

void MatrixPanels::open() {
  if (input_.location.starts_with(kRealPrefix)) {
    const Tensor& tensor = real_tensor(std::string_view(input_.location).substr(kRealPrefix.size()));
    head_ = matrix_head(input_, {tensor.format, tensor.shape});
    embedded_ = tensor.data.data() + head_.bytes_before;
  } else {
    rows_ = open_rows(input_.location);
    head_ = matrix_head(input_, rows_->head());
    std::vector<std::byte> before;  // other matrices of the tensor
    for (std::int64_t left = head_.bytes_before; left > 0; left -= static_cast<std::int64_t>(before.size())) {
      before.resize(static_cast<std::size_t>(std::min(left, kPanelBytes)));
      rows_->read(before);
    }
  }
  row_bytes_ = head_.cols * (head_.dtype == Format::fp32 ? 4 : 2);
  at_ = 0;
}

void MatrixPanels::rewind() {
  const MatrixHead before = head_;
  open();
  if (head_.dtype == before.dtype && head_.rows == before.rows && head_.cols == before.cols) return;
  throw Error(ErrorKind::input, input_.location + ": became another tensor while it was read");
}

MatrixView MatrixPanels::next(std::int64_t rows, std::vector<std::byte>& buffer) {
  MatrixView view{head_.dtype, nullptr, rows, head_.cols, head_.cols, std::exchange(at_, at_ + rows)};
  if (embedded_ != nullptr) {
    view.data = embedded_ + view.first_row * row_bytes_;
    return view;
  }
  buffer.resize(static_cast<std::size_t>(rows * row_bytes_));
  rows_->read(buffer);
  view.data = buffer.data();
  return view;
}

PanelQuantizer::PanelQuantizer(Format source, Format element, BlockShape block, const Recipe& recipe)
    : element_(element), block_(block), recipe_(recipe), simd_(offers_simd(source, element, block, recipe)) {}

void PanelQuantizer::quantize(const MatrixView& panel, std::span<const std::int64_t> starts, std::size_t number,
                              std::span<const std::int64_t> offsets, int threads, QuantizedTensor& q) const {
  if (!simd_) {
    q = mxcheck::quantize(panel, element_, block_, recipe_, {.whole = whole_ ? &*whole_ : nullptr}, offsets, threads);
    return;
  }
  q.codes.format = element_;
  q.levels.front().block = block_;
  simd_quantize(panel, offsets, recipe_, threads, q);
  const std::int64_t row_bytes = panel.row_stride * (panel.dtype == Format::fp32 ? 4 : 2);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    if (!is_checked(number + i)) continue;
    const std::int64_t row = starts[i] - starts[0];
    const MatrixView band{
        panel.dtype, panel.data + row * row_bytes, starts[i + 1] - starts[i], panel.cols, panel.row_stride, starts[i]};
    const QuantizedTensor want = mxcheck::quantize(band, element_, block_, recipe_, {}, 1);
    const auto begins = [](const Tensor& whole, std::int64_t at, const Tensor& part) {
      return std::equal(part.data.begin(), part.data.end(), whole.data.begin() + at);
    };
    if (begins(q.codes, row * panel.cols, want.codes) &&
        begins(q.scales(), static_cast<std::int64_t>(i) * q.scale_cols(), want.scales()))
      continue;
    refuse_difference(starts[i], starts[i + 1]);
  }
}

}  // namespace mxcheck
