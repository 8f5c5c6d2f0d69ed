#include "properties/operations/scaled_blocks/place.h"

#include <algorithm>

#include <fmt/format.h>

#include "properties/core/notation.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

BlockBounds block_at_scale(const Case& c, const ScaleGeometry& g, std::int64_t scale_row, std::int64_t scale_col) {
  const std::int64_t height = g.block.height(c.rows);
  const std::int64_t width = g.block.width(c.cols);
  std::int64_t before = 0;
  BlockBounds b{0, 0, scale_col * width, std::min(c.cols, (scale_col + 1) * width)};
  for (std::size_t e = 0; e < g.rows_of_expert.size(); ++e) {
    const std::int64_t first = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    if (scale_row < before + g.rows_of_expert[e]) {
      b.first_row = first + (scale_row - before) * height;
      b.end_row = std::min(end, b.first_row + height);
      return b;
    }
    before += g.rows_of_expert[e];
  }
  return b;
}

ScalePlace scale_at(const ScaleGeometry& g, std::int64_t offset) {
  std::int64_t base = 0;
  std::int64_t before = 0;
  for (std::int64_t rows : g.rows_of_expert) {
    const std::int64_t r = g.row_blocks() ? rows : g.cols;
    const std::int64_t k = g.row_blocks() ? g.cols : rows;
    for (std::int64_t i = 0; i < r; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        if (base + layout_offset(ScaleLayout::tcgen05, i, j, r, k) == offset) {
          return g.row_blocks() ? ScalePlace{before + i, j} : ScalePlace{before + j, i};
        }
      }
    }
    base += layout_bytes(ScaleLayout::tcgen05, {{r}, k});
    before += rows;
  }
  return {};
}

std::string place_text(std::int64_t row, std::int64_t col) { return fmt::format("({}, {})", row, col); }

std::string place_line(const Case& c, const ScaleGeometry& g, std::int64_t row, std::int64_t col) {
  const std::int64_t scale_row = scale_row_of(c, g, row);
  const std::int64_t scale_col = col / g.block.width(c.cols);
  const BlockBounds b = block_at_scale(c, g, scale_row, scale_col);
  return "place     element " + place_text(row - b.first_row, col - b.first_col) + " of block " +
         place_text(scale_row, scale_col);
}

ScalePlace explain_tiled_byte(const ScaleGeometry& g, Finding& finding) {
  const std::int64_t offset = finding.difference->first.col;
  const ScalePlace place = scale_at(g, offset);
  finding.element.push_back(
      fmt::format("layout    byte {} of the tcgen05 tiles is {}", offset,
                  place.row < 0 ? "padding" : "the scale of block " + place_text(place.row, place.col)));
  return place;
}

void explain_words(Finding& finding) {
  const Difference::Element& e = finding.difference->first;
  const Format format = finding.difference->tensor.format;
  finding.element.push_back("expected  " + notations(format, e.expected));
  finding.element.push_back("observed  " + notations(format, e.observed) +
                            (e.ulps < 0
                                 ? "; a NaN against a number"
                                 : "; " + std::to_string(e.ulps) + (e.ulps == 1 ? " step away" : " steps away")));
}

}  // namespace mxcheck
