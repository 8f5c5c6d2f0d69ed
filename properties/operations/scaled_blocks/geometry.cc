#include "properties/operations/scaled_blocks/geometry.h"

#include <utility>

#include "kernels/candidate.h"

namespace mxcheck {

ScaleGeometry scale_geometry(const Case& c, BlockShape block) {
  ScaleGeometry g;
  g.block = block;
  const std::int64_t height = block.height(c.rows);
  const std::int64_t width = block.width(c.cols);
  g.cols = (c.cols + width - 1) / width;
  if (c.experts.empty()) {
    g.rows_of_expert = {(c.rows + height - 1) / height};
  } else {
    for (std::size_t e = 1; e < c.experts.size(); ++e) {
      g.rows_of_expert.push_back((c.experts[e] - c.experts[e - 1] + height - 1) / height);
    }
  }
  for (std::int64_t rows : g.rows_of_expert) g.rows += rows;
  if (has_layout(ScaleLayout::tcgen05, block)) g.tiled_bytes = layout_bytes(ScaleLayout::tcgen05, g.shape());
  return g;
}

std::int64_t scale_row_of(const Case& c, const ScaleGeometry& g, std::int64_t row) {
  std::int64_t before = 0;
  for (std::size_t e = 0; e < g.rows_of_expert.size(); ++e) {
    const std::int64_t first = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    if (row >= first && row < end) return before + (row - first) / g.block.height(c.rows);
    before += g.rows_of_expert[e];
  }
  return 0;
}

std::vector<std::uint8_t> in_layout(const Case& c, const ScaleGeometry& g, std::vector<std::uint8_t> compact,
                                    int layout) {
  if (layout == MXCHECK_COMPACT) return compact;
  return to_layout(ScaleLayout::tcgen05, g.shape(), compact, blocks_case(c).pad);
}

std::vector<std::uint8_t> to_compact(const ScaleGeometry& g, std::span<const std::uint8_t> scales, int layout) {
  if (layout == MXCHECK_COMPACT) return {scales.begin(), scales.end()};
  return from_layout(ScaleLayout::tcgen05, g.shape(), scales);
}

TensorInfo codes_info(const Case& c, std::string name, BlockShape block) {
  return {std::move(name),
          blocks_of(c.variant).format,
          c.rows,
          c.cols,
          block.rows == 0 ? c.rows : block.rows,
          block.cols == 0 ? c.cols : block.cols,
          false};
}

TensorInfo scales_info(const Case& c, std::string name, BlockShape block) {
  if (blocks_of(c.variant).layout == MXCHECK_COMPACT) {
    TensorInfo info = compact_scales_info(c, block);
    info.name = std::move(name);
    return info;
  }
  return {std::move(name), Format::e8m0, 1, scale_geometry(c, block).tiled_bytes, 0, 0, false};
}

TensorInfo compact_scales_info(const Case& c, BlockShape block) {
  const ScaleGeometry g = scale_geometry(c, block);
  return {"scales", Format::e8m0, g.rows, g.cols, 0, 0, false};
}

}  // namespace mxcheck
