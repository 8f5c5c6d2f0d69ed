#pragma once
// The SIMD library's quantization (kernels/cpu), called as the gate calls any candidate: through kernels/candidate.h.
//
//   if (offers_simd(Format::bf16, Format::e4m3, {1, 32}, recipe)) simd_quantize(panel, offsets, recipe, q);

#include <cstdint>
#include <span>

#include "reference/quantize/quantize.h"

namespace mxcheck {

// Whether the library offers this, with the recipe as it is in its table: one whose policies were replaced is not.
bool offers_simd(Format source, Format element, BlockShape block, const Recipe& recipe);

// What quantize(panel, q.element, q.block, recipe, offsets) returns, into the codes and scales of q, whose memory is
// used again. Its shape is the panel's, and its scales are compact. Error{internal} when the library refuses.
void simd_quantize(const MatrixView& panel, std::span<const std::int64_t> offsets, const Recipe& recipe, Quantized& q);

}  // namespace mxcheck
