#include "tools/common/panel_quantizer.h"

#include <algorithm>

#include "bindings/simd/simd.h"
#include "tools/common/panels.h"

namespace mxcheck {

PanelQuantizer::PanelQuantizer(Format source, Format element, BlockShape block, const Recipe& recipe)
    : element_(element), block_(block), recipe_(recipe), simd_(offers_simd(source, element, block, recipe)) {}

void PanelQuantizer::quantize(const MatrixView& panel, std::span<const std::int64_t> starts, std::size_t number,
                              std::span<const std::int64_t> offsets, int threads, Quantized& q) const {
  if (!simd_) {
    q = mxcheck::quantize(panel, element_, block_, recipe_, offsets, threads);
    return;
  }
  q.element = element_, q.block = block_;
  simd_quantize(panel, offsets, recipe_, threads, q);
  const std::int64_t row_bytes = panel.row_stride * (panel.dtype == Format::fp32 ? 4 : 2);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    if (!is_checked(number + i)) continue;
    const std::int64_t row = starts[i] - starts[0];
    const MatrixView band{
        panel.dtype, panel.data + row * row_bytes, starts[i + 1] - starts[i], panel.cols, panel.row_stride, starts[i]};
    const Quantized want = mxcheck::quantize(band, element_, block_, recipe_, {}, 1);
    const auto codes = q.codes.begin() + row * panel.cols;
    const auto scales = q.scales.begin() + static_cast<std::int64_t>(i) * q.scale_cols;
    if (std::equal(want.codes.begin(), want.codes.end(), codes) &&
        std::equal(want.scales.begin(), want.scales.end(), scales))
      continue;
    refuse_difference(starts[i], starts[i + 1]);
  }
}

}  // namespace mxcheck
