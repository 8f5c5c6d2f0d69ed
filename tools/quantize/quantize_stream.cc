#include "tools/quantize/quantize_stream.h"

#include <algorithm>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "tools/quantize/panels.h"
#include "tools/quantize/simd.h"

namespace mxcheck {
namespace {

struct Panel {
  std::vector<std::byte> x;
  Quantized q;
};

class Stream {
 public:
  Stream(RowReader& rows, const QuantizeRequest& request, const std::string& output, Progress& progress)
      : reader_(rows),
        request_(request),
        progress_(progress),
        starts_(block_row_starts(request.matrix.rows, request.block.rows, request.offsets)),
        simd_(offers_simd(request.matrix.dtype, request.element, request.block, request.recipe)),
        row_bytes_(request.matrix.cols * (request.matrix.dtype == Format::fp32 ? 4 : 2)),
        file_{{}, request.offsets, request.layout, request.pad_byte},
        writer_(output, with_shape(), request.recipe, request.matrix.dtype) {}

  QuantizedFile run() {
    skip(request_.matrix.bytes_before);
    std::size_t number = 0;
    for (const PanelRange& range : panels(starts_, row_bytes_)) {
      Panel& panel = panels_[number++ % 2];  // the other one is being written
      quantize_panel(panel, range.at, range.end);
      if (written_.valid()) written_.get();
      written_ = std::async(std::launch::async, [this, &panel] { append(panel); });
      progress_.now(fmt::format("quantizing {} x {}: {} %", request_.matrix.rows, request_.matrix.cols,
                                100 * starts_[range.end] / request_.matrix.rows));
    }
    if (written_.valid()) written_.get();
    writer_.append_scales(std::move(scales_), std::move(scales_fp32_));
    progress_.now("writing to disk");
    writer_.commit();
    return std::move(file_);
  }

 private:
  // The file with its matrix's shape, which is what its header is made of.
  const QuantizedFile& with_shape() {
    Quantized& q = file_.matrix;
    q.element = request_.element, q.block = request_.block;
    q.rows = request_.matrix.rows, q.cols = request_.matrix.cols;
    q.scale_rows = static_cast<std::int64_t>(starts_.size()) - 1;
    q.scale_cols = q.block.cols == 0 ? 1 : q.cols / q.block.cols + (q.cols % q.block.cols != 0);
    return file_;
  }

  void skip(std::int64_t bytes) {
    std::vector<std::byte> piece(static_cast<std::size_t>(std::min(bytes, kPanelBytes)));
    for (; bytes > 0; bytes -= static_cast<std::int64_t>(piece.size())) {
      piece.resize(static_cast<std::size_t>(std::min(bytes, kPanelBytes)));
      reader_.read(piece);
    }
  }

  // Rows of blocks [at, end), each a band of matrix rows.
  void quantize_panel(Panel& panel, std::size_t at, std::size_t end) {
    const std::int64_t first = starts_[at];
    const std::int64_t rows = starts_[end] - first;
    panel.x.resize(static_cast<std::size_t>(rows * row_bytes_));
    reader_.read(panel.x);
    const MatrixView view{request_.matrix.dtype, panel.x.data(),       rows,
                          request_.matrix.cols,  request_.matrix.cols, first};
    const std::vector<std::int64_t> offsets = offsets_within(request_.offsets, first, rows);
    if (simd_) {
      panel.q.element = request_.element, panel.q.block = request_.block;
      simd_quantize(view, offsets, request_.recipe, panel.q);
      check(panel, view, at, end);
    } else {
      panel.q = quantize(view, request_.element, request_.block, request_.recipe, offsets);
    }
    scales_.insert(scales_.end(), panel.q.scales.begin(), panel.q.scales.end());
    scales_fp32_.insert(scales_fp32_.end(), panel.q.scales_fp32.begin(), panel.q.scales_fp32.end());
  }

  // Codes and scales of some bands against the reference's: those that a hash chooses, so that they follow no period.
  void check(const Panel& panel, const MatrixView& view, std::size_t at, std::size_t end) const {
    for (std::size_t i = at; i < end; ++i) {
      if (!is_checked(i)) continue;
      const std::int64_t row = starts_[i] - starts_[at];
      const MatrixView band{
          view.dtype, view.data + row * row_bytes_, starts_[i + 1] - starts_[i], view.cols, view.row_stride,
          starts_[i]};
      const Quantized want = quantize(band, request_.element, request_.block, request_.recipe, {}, 1);
      const auto codes = panel.q.codes.begin() + row * view.cols;
      const auto scales = panel.q.scales.begin() + static_cast<std::int64_t>(i - at) * panel.q.scale_cols;
      if (std::equal(want.codes.begin(), want.codes.end(), codes) &&
          std::equal(want.scales.begin(), want.scales.end(), scales))
        continue;
      refuse_difference(starts_[i], starts_[i + 1]);
    }
  }

  void append(const Panel& panel) {
    writer_.append_codes(request_.element == Format::e5m6 ? std::as_bytes(std::span(panel.q.codes16))
                                                          : std::as_bytes(std::span(panel.q.codes)));
  }

  RowReader& reader_;
  const QuantizeRequest& request_;
  Progress& progress_;
  std::vector<std::int64_t> starts_;
  bool simd_;
  std::int64_t row_bytes_;
  QuantizedFile file_;
  QuantizedWriter writer_;
  std::vector<std::uint8_t> scales_;
  std::vector<float> scales_fp32_;
  Panel panels_[2];
  std::future<void> written_;  // last: it uses all the others
};

// Nothing to read, however many rows of nothing there are.
QuantizedFile quantize_nothing(const QuantizeRequest& request, const std::string& output) {
  const MatrixView view{request.matrix.dtype, nullptr, request.matrix.rows, request.matrix.cols, request.matrix.cols};
  QuantizedFile file{quantize(view, request.element, request.block, request.recipe, request.offsets), request.offsets,
                     request.layout, request.pad_byte};
  write_quantized(output, to_safetensors(file, request.recipe, request.matrix.dtype));
  return file;
}

}  // namespace

QuantizedFile quantize_stream(RowReader& rows, const QuantizeRequest& request, const std::string& output,
                              Progress& progress) {
  if (request.matrix.rows == 0 || request.matrix.cols == 0) return quantize_nothing(request, output);
  return Stream(rows, request, output, progress).run();
}

}  // namespace mxcheck
