// The part of a counterexample that a person reads first: the element, its block, and what should have become of it.

#include <cmath>

#include "kernels/candidate.h"
#include "properties/core/notation.h"
#include "properties/operations/quantize/problem.h"
#include "properties/operations/scaled_blocks/place.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

// Lines about the block, and its amax as a relevant element.
BlockScale explain_block(const QuantizeProblem& p, const BlockBounds& b, Finding& finding) {
  const MatrixView x = p.input.view();
  BlockAmax amax;
  Plant largest = p.input.plant(b.first_row, b.first_col);
  Plant nan = largest;
  for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
    for (std::int64_t j = b.first_col; j < b.end_col; ++j) {
      const float value = x.at(i, j);
      if (std::isnan(value)) {
        amax.has_nan = true, nan = p.input.plant(i, j);
      } else if (std::fabs(value) > amax.amax) {
        amax.amax = std::fabs(value), largest = p.input.plant(i, j);
      }
    }
  }
  const Format dtype = p.c.variant.dtype;
  finding.element.push_back("block     rows " + std::to_string(b.first_row) + " to " + std::to_string(b.end_row - 1) +
                            ", columns " + std::to_string(b.first_col) + " to " + std::to_string(b.end_col - 1));
  const std::uint32_t magnitude = largest.bits & ~sign_bit(dtype);
  finding.element.push_back("amax      " + notations(dtype, magnitude) + " at " + place_text(largest.row, largest.col) +
                            (amax.has_nan ? "; the block holds a NaN at " + place_text(nan.row, nan.col) : ""));
  const ScaledBlocksVariant& v = blocks_of(p.c.variant);
  const BlockScale scale = block_scale(recipe_named(v.recipe), v.format, amax);
  finding.element.push_back("scale     " + notations(Format::e8m0, scale.byte) + " by the reference");
  finding.relevant.push_back(largest);
  if (amax.has_nan) finding.relevant.push_back(nan);
  return scale;
}

}  // namespace

void QuantizeProblem::explain_code(BlockShape block, Finding& finding) const {
  const Difference::Element& e = finding.difference->first;
  const bool is_cast = c.variant.operation == "cast";
  const ScaleGeometry g = scale_geometry(c, block);
  const Plant x = input.plant(e.row, e.col);
  finding.element.push_back("input     x" + place_text(e.row, e.col) + " = " + notations(c.variant.dtype, x.bits));
  if (!is_cast) finding.element.push_back(place_line(c, g, e.row, e.col));
  finding.relevant.push_back(x);
  if (c.gather != 0) {
    finding.element.push_back("gathered  row " + std::to_string(e.row) + " is row " +
                              std::to_string(index[static_cast<std::size_t>(e.row)]) + " of the source");
  }
  if (is_cast) return;
  const BlockBounds b = block_at_scale(c, g, scale_row_of(c, g, e.row), e.col / block.width(c.cols));
  const BlockScale scale = explain_block(*this, b, finding);
  if (!scale.poisoned) {
    const double value = static_cast<double>(input.view().at(e.row, e.col)) * scale.factor;
    finding.element.push_back("scaled    x / 2^" + std::to_string(int{scale.byte} - 127) + " = " + notations(value) +
                              " exactly");
  }
}

void QuantizeProblem::explain_scale(BlockShape block, Finding& finding) const {
  const ScaleGeometry g = scale_geometry(c, block);
  ScalePlace place{finding.difference->first.row, finding.difference->first.col};
  if (blocks_of(c.variant).layout == MXCHECK_TCGEN05) place = explain_tiled_byte(g, finding);
  if (place.row >= 0 && !input.bytes.empty()) explain_block(*this, block_at_scale(c, g, place.row, place.col), finding);
}

void QuantizeProblem::explain(std::size_t output, Finding& finding) const {
  const BlockShape own = blocks_of(c.variant).block;
  const BlockShape block = output >= 2 ? own.transposed() : own;  // the column side of quantize_dual
  if (finding.difference->tensor.format == Format::e8m0)
    explain_scale(block, finding);
  else
    explain_code(block, finding);
  explain_words(finding);
}

}  // namespace mxcheck
