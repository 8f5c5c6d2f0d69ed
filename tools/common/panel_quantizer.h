#pragma once
// Panels of a matrix quantized: by the SIMD library where it offers the recipe, one row of blocks in 64 then checked by
// the reference; elsewhere by the reference.

#include <cstdint>
#include <span>

#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

class PanelQuantizer {
 public:
  PanelQuantizer(Format source, Format element, BlockShape block, const Recipe& recipe);

  // Writes quantize(panel, element, block, recipe, offsets, threads) to q, whose memory is used again. The panel
  // is the matrix rows from starts.front() to starts.back(), those of its rows of blocks (block_row_starts); the first
  // of them is the matrix's row of blocks `number`. Offsets are the panel's own. From several threads at once, with a q
  // each. Errors: those of quantize(); Error{internal} where library and reference differ.
  void quantize(const MatrixView& panel, std::span<const std::int64_t> starts, std::size_t number,
                std::span<const std::int64_t> offsets, int threads, QuantizedTensor& q) const;

 private:
  Format element_;
  BlockShape block_;
  Recipe recipe_;
  bool simd_;
};

}  // namespace mxcheck
