// The part of a counterexample that a person reads first: the element, its block, and what should have become of it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/candidate.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "properties/core/notation.h"
#include "properties/operations/matmul/problem.h"
#include "properties/operations/operations.h"
#include "properties/operations/router/problem.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

struct Bounds {
  std::int64_t first_row, end_row, first_col, end_col;
};

std::int64_t extent_or(std::int64_t block, std::int64_t whole) {
  return block == 0 ? std::max<std::int64_t>(1, whole) : block;
}

Bounds block_at_scale(const Case& c, const ScaleGeometry& g, std::int64_t scale_row, std::int64_t scale_col) {
  const std::int64_t block_rows = extent_or(g.block.rows, c.rows);
  const std::int64_t block_cols = extent_or(g.block.cols, c.cols);
  std::int64_t before = 0;
  Bounds b{0, 0, scale_col * block_cols, std::min(c.cols, (scale_col + 1) * block_cols)};
  for (std::size_t e = 0; e < g.rows_of_expert.size(); ++e) {
    const std::int64_t first = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    if (scale_row < before + g.rows_of_expert[e]) {
      b.first_row = first + (scale_row - before) * block_rows;
      b.end_row = std::min(end, b.first_row + block_rows);
      return b;
    }
    before += g.rows_of_expert[e];
  }
  return b;
}

}  // namespace

std::int64_t scale_row_of(const Case& c, const ScaleGeometry& g, std::int64_t row) {
  const std::int64_t block_rows = extent_or(g.block.rows, c.rows);
  std::int64_t before = 0;
  for (std::size_t e = 0; e < g.rows_of_expert.size(); ++e) {
    const std::int64_t first = c.experts.empty() ? 0 : c.experts[e];
    const std::int64_t end = c.experts.empty() ? c.rows : c.experts[e + 1];
    if (row >= first && row < end) return before + (row - first) / block_rows;
    before += g.rows_of_expert[e];
  }
  return 0;
}

namespace {

struct Slot {
  std::int64_t row = -1;  // -1: padding
  std::int64_t col = -1;
};

// Which scale lives at a flat offset of the tcgen05 layout.
Slot slot_at(const ScaleGeometry& g, std::int64_t offset) {
  std::int64_t base = 0;
  std::int64_t before = 0;
  for (std::int64_t rows : g.rows_of_expert) {
    const std::int64_t r = g.row_blocks() ? rows : g.cols;
    const std::int64_t k = g.row_blocks() ? g.cols : rows;
    for (std::int64_t i = 0; i < r; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        if (base + layout_offset(ScaleLayout::tcgen05, i, j, r, k) == offset) {
          return g.row_blocks() ? Slot{before + i, j} : Slot{before + j, i};
        }
      }
    }
    base += layout_bytes(ScaleLayout::tcgen05, {{r}, k});
    before += rows;
  }
  return {};
}

Plant plant_of(const Problem& p, std::int64_t row, std::int64_t col) {
  const std::size_t width = p.c.variant.wide == Format::fp32 ? 4 : 2;
  std::uint32_t bits = 0;
  std::memcpy(&bits, p.input.bytes.data() + static_cast<std::size_t>(row * p.input.view.row_stride + col) * width,
              width);
  return {row, col, bits};
}

std::string at(std::int64_t row, std::int64_t col) {
  return "(" + std::to_string(row) + ", " + std::to_string(col) + ")";
}

// Where in its block an element stands: block (row, column) of the scales, element (row, column) of the block.
std::string place_line(const Problem& p, const ScaleGeometry& g, std::int64_t row, std::int64_t col) {
  const std::int64_t scale_row = scale_row_of(p.c, g, row);
  const std::int64_t scale_col = col / extent_or(g.block.cols, p.c.cols);
  const Bounds b = block_at_scale(p.c, g, scale_row, scale_col);
  return "place     element " + at(row - b.first_row, col - b.first_col) + " of block " + at(scale_row, scale_col);
}

// Lines about the block, and its amax element as a culprit.
BlockScale explain_block(const Problem& p, const Bounds& b, Finding& finding) {
  BlockAmax amax;
  Plant largest = plant_of(p, b.first_row, b.first_col);
  Plant nan = largest;
  for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
    for (std::int64_t j = b.first_col; j < b.end_col; ++j) {
      const float value = p.input.view.at(i, j);
      if (std::isnan(value)) {
        amax.has_nan = true, nan = plant_of(p, i, j);
      } else if (std::fabs(value) > amax.amax) {
        amax.amax = std::fabs(value), largest = plant_of(p, i, j);
      }
    }
  }
  const Format wide = p.c.variant.wide;
  finding.element.push_back("block     rows " + std::to_string(b.first_row) + " to " + std::to_string(b.end_row - 1) +
                            ", columns " + std::to_string(b.first_col) + " to " + std::to_string(b.end_col - 1));
  const std::uint32_t magnitude = largest.bits & ~(1U << (spec(wide).bits - 1));
  finding.element.push_back("amax      " + notations(wide, magnitude) + " at " + at(largest.row, largest.col) +
                            (amax.has_nan ? "; the block holds a NaN at " + at(nan.row, nan.col) : ""));
  const BlockScale scale = block_scale(recipe_named(p.c.variant.recipe), p.c.variant.format, amax);
  finding.element.push_back("scale     " + notations(Format::e8m0, scale.byte) + " by the reference");
  finding.culprits.push_back(largest);
  if (amax.has_nan) finding.culprits.push_back(nan);
  return scale;
}

void explain_code(const Problem& p, const ScaleGeometry& g, Finding& finding) {
  const Difference::Element& e = finding.difference->first;
  const Format wide = p.c.variant.wide;
  const Plant x = plant_of(p, e.row, e.col);
  finding.element.push_back("input     x" + at(e.row, e.col) + " = " + notations(wide, x.bits));
  if (p.c.variant.operation != "cast") finding.element.push_back(place_line(p, g, e.row, e.col));
  finding.culprits.push_back(x);
  if (p.c.gather != 0) {
    finding.element.push_back("gathered  row " + std::to_string(e.row) + " is row " +
                              std::to_string(p.index[static_cast<std::size_t>(e.row)]) + " of the source");
  }
  if (p.c.variant.operation == "cast") return;
  const std::int64_t scale_col = e.col / extent_or(g.block.cols, p.c.cols);
  const Bounds b = block_at_scale(p.c, g, scale_row_of(p.c, g, e.row), scale_col);
  const BlockScale scale = explain_block(p, b, finding);
  if (!scale.poisoned) {
    finding.element.push_back("scaled    x / 2^" + std::to_string(int{scale.byte} - 127) + " = " +
                              notations(static_cast<double>(p.input.view.at(e.row, e.col)) * scale.factor) +
                              " exactly");
  }
}

void explain_scale(const Problem& p, const ScaleGeometry& g, Finding& finding) {
  const Difference::Element& e = finding.difference->first;
  Slot slot{e.row, e.col};
  if (p.c.variant.layout == MXCHECK_TCGEN05) {
    slot = slot_at(g, e.col);
    finding.element.push_back("layout    byte " + std::to_string(e.col) + " of the tcgen05 tiles is " +
                              (slot.row < 0 ? std::string("padding") : "the scale of block " + at(slot.row, slot.col)));
  }
  if (slot.row >= 0 && !p.input.bytes.empty()) explain_block(p, block_at_scale(p.c, g, slot.row, slot.col), finding);
}

}  // namespace

void explain(const Problem& p, std::size_t output, Finding& finding) {
  if (is_matmul(p.c.variant.operation)) return void(explain_product(p, finding));
  if (is_route(p.c.variant.operation)) return explain_route(p, output, finding);
  const Difference::Element& e = finding.difference->first;
  const TensorInfo& info = finding.difference->tensor;
  const Variant& v = p.c.variant;
  const bool column_side = v.operation == "quantize_dual" && output >= 2;
  const ScaleGeometry g = scale_geometry(p.c, column_side ? BlockShape{v.block.cols, v.block.rows} : v.block);
  if (v.operation == "dequantize") {
    const std::int64_t scale_col = e.col / extent_or(g.block.cols, p.c.cols);
    const std::uint8_t byte =
        to_compact(p.c, g, p.scales)[static_cast<std::size_t>(scale_row_of(p.c, g, e.row) * g.cols + scale_col)];
    const std::uint8_t code = p.codes[static_cast<std::size_t>(e.row * p.c.cols + e.col)];
    finding.element.push_back("input     code" + at(e.row, e.col) + " = " + notations(v.format, code));
    finding.element.push_back(place_line(p, g, e.row, e.col));
    finding.element.push_back("scale     " + notations(Format::e8m0, byte));
    finding.culprits.push_back({e.row, e.col, static_cast<std::uint32_t>(byte << 8 | code)});
  } else if (v.operation != "scale_layout") {
    if (info.format == Format::e8m0) {
      explain_scale(p, g, finding);
    } else {
      explain_code(p, g, finding);
    }
  } else if (v.layout == MXCHECK_TCGEN05) {
    explain_scale(p, g, finding);
  }
  finding.element.push_back("expected  " + notations(info.format, e.expected));
  finding.element.push_back("observed  " + notations(info.format, e.observed) +
                            (e.ulps < 0
                                 ? "; a NaN against a number"
                                 : "; " + std::to_string(e.ulps) + (e.ulps == 1 ? " step away" : " steps away")));
}

}  // namespace mxcheck
