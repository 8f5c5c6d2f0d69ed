#include "tools/quantize/quantize_stream.h"

#include <future>
#include <utility>

#include <fmt/format.h>

#include "tools/common/panel_quantizer.h"
#include "tools/common/panels.h"

namespace mxcheck {
namespace {

struct Panel {
  std::vector<std::byte> x;
  Quantized q;
};

class Stream {
 public:
  Stream(MatrixPanels& matrix, const QuantizeRequest& request, const std::string& output, Progress& progress)
      : matrix_(matrix),
        head_(matrix.head()),
        request_(request),
        progress_(progress),
        starts_(block_row_starts(head_.rows, request.block.rows, request.offsets)),
        quantizer_(head_.dtype, request.element, request.block, request.recipe),
        file_{{}, request.offsets, request.layout, request.pad_byte},
        writer_(output, with_shape(), request.recipe, head_.dtype) {}

  void run(const std::function<void(const QuantizedFile&)>& before_it_appears) {
    std::size_t number = 0;
    for (const PanelRange& range : panels(starts_, head_.cols * (head_.dtype == Format::fp32 ? 4 : 2))) {
      Panel& panel = panels_[number++ % 2];  // the other one is being written
      quantize_panel(panel, range.at, range.end);
      if (written_.valid()) written_.get();
      written_ = std::async(std::launch::async, [this, &panel] { append(panel); });
      progress_.now(fmt::format("quantizing {} x {}", head_.rows, head_.cols),
                    static_cast<double>(starts_[range.end]) / static_cast<double>(head_.rows));
    }
    if (written_.valid()) written_.get();
    writer_.append_scales(std::move(scales_), std::move(scales_fp32_));
    progress_.now("writing to disk");
    writer_.commit([&] {
      if (before_it_appears) before_it_appears(file_);
    });
  }

 private:
  // The file with its matrix's shape, which is what its header is made of.
  const QuantizedFile& with_shape() {
    Quantized& q = file_.matrix;
    q.element = request_.element, q.block = request_.block;
    q.rows = head_.rows, q.cols = head_.cols;
    q.scale_rows = static_cast<std::int64_t>(starts_.size()) - 1;
    q.scale_cols = q.block.cols == 0 ? 1 : q.cols / q.block.cols + (q.cols % q.block.cols != 0);
    return file_;
  }

  // Rows of blocks [at, end), each a band of matrix rows.
  void quantize_panel(Panel& panel, std::size_t at, std::size_t end) {
    const std::int64_t first = starts_[at];
    const std::int64_t rows = starts_[end] - first;
    const MatrixView view = matrix_.next(rows, panel.x);
    quantizer_.quantize(view, std::span(starts_).subspan(at, end - at + 1), at,
                        offsets_within(request_.offsets, first, rows), 0, panel.q);
    scales_.insert(scales_.end(), panel.q.scales.begin(), panel.q.scales.end());
    scales_fp32_.insert(scales_fp32_.end(), panel.q.scales_fp32.begin(), panel.q.scales_fp32.end());
  }

  void append(const Panel& panel) {
    writer_.append_codes(request_.element == Format::e5m6 ? std::as_bytes(std::span(panel.q.codes16))
                                                          : std::as_bytes(std::span(panel.q.codes)));
  }

  MatrixPanels& matrix_;
  const MatrixHead& head_;
  const QuantizeRequest& request_;
  Progress& progress_;
  std::vector<std::int64_t> starts_;
  PanelQuantizer quantizer_;
  QuantizedFile file_;
  QuantizedWriter writer_;
  std::vector<std::uint8_t> scales_;
  std::vector<float> scales_fp32_;
  Panel panels_[2];
  std::future<void> written_;  // last: it uses all the others
};

// Nothing to read, however many rows of nothing there are.
void quantize_nothing(const MatrixHead& head, const QuantizeRequest& request, const std::string& output,
                      const std::function<void(const QuantizedFile&)>& before_it_appears) {
  const MatrixView view{head.dtype, nullptr, head.rows, head.cols, head.cols};
  const QuantizedFile file{quantize(view, request.element, request.block, request.recipe, request.offsets),
                           request.offsets, request.layout, request.pad_byte};
  write_quantized(output, to_safetensors(file, request.recipe, head.dtype), [&] {
    if (before_it_appears) before_it_appears(file);
  });
}

}  // namespace

void quantize_stream(MatrixPanels& matrix, const QuantizeRequest& request, const std::string& output,
                     Progress& progress, const std::function<void(const QuantizedFile&)>& before_it_appears) {
  if (matrix.head().rows == 0 || matrix.head().cols == 0)
    return quantize_nothing(matrix.head(), request, output, before_it_appears);
  Stream(matrix, request, output, progress).run(before_it_appears);
}

}  // namespace mxcheck
