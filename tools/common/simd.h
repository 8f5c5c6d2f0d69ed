#pragma once
// The SIMD library's quantization and dequantization (kernels/cpu), called as the gate calls any candidate: through
// kernels/candidate.h.
//
//   if (offers_simd(Format::bf16, Format::e4m3, {1, 32}, recipe)) simd_quantize(panel, offsets, recipe, q);

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/quantize/quantize.h"

namespace mxcheck {

// Whether the library offers this, with the recipe as it is in its table: one whose policies were replaced is not.
bool offers_simd(Format source, Format element, BlockShape block, const Recipe& recipe);

// What quantize(panel, q.element, q.block, recipe, offsets) returns, into the codes and scales of q, whose memory is
// used again. Its shape is the panel's, and its scales are compact. Threads: 0 for the library's choice.
// Error{internal} when the library refuses.
void simd_quantize(const MatrixView& panel, std::span<const std::int64_t> offsets, const Recipe& recipe, int threads,
                   Quantized& q);

// The same of values from codes and E8M0 scales, as fp32 or bf16; any recipe's.
bool offers_simd_values(Format values, Format element, BlockShape block);

// The values of q, whose scales are compact, with the reference's NaN. `to`: rows * cols of them.
void simd_dequantize(const Quantized& q, std::span<const std::int64_t> offsets, Format values, std::span<std::byte> to);

}  // namespace mxcheck
