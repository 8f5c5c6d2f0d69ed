#pragma once
// The SIMD library's quantization and dequantization (kernels/cpu), called as the gate calls any candidate: through
// kernels/candidate.h. For what passes large tensors: the tool, in panels, and the C interface, whole.
//
//   const SimdBlocks blocks{Format::e4m3, {1, 32}, ScaleLayout::tcgen05};
//   if (offers_simd(Format::bf16, Format::e4m3, {1, 32}, recipe)) simd_quantize(x, blocks, recipe, codes, scales);
//
// Errors: Error{internal} when the library refuses a call.
// Does not promise: that the bytes are the reference's. The caller checks a sample of them.

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {

// True if the library offers this, with the recipe as it is in its table: one whose policies were replaced is not.
bool offers_simd(Format source, Format element, BlockShape block, const Recipe& recipe);

// The same of values from codes and E8M0 scales, as fp32 or bf16; any recipe's.
bool offers_simd_values(Format values, Format element, BlockShape block);

struct SimdBlocks {
  Format element = Format::e4m3;
  BlockShape block;
  ScaleLayout layout = ScaleLayout::compact;  // or tcgen05
  std::span<const std::int64_t> offsets;
  std::uint8_t pad = 0;
  int threads = 0;  // 0 for the library's choice
};

// The results of quantize(x, ...) and to_layout, to codes (rows * cols) and scales (all bytes of the layout).
void simd_quantize(const MatrixView& x, const SimdBlocks& blocks, const Recipe& recipe, std::uint8_t* codes,
                   std::span<std::uint8_t> scales);

// The way back: rows * cols values as fp32 or bf16. Any NaN may stand for any other, by the candidate interface.
void simd_dequantize(const std::uint8_t* codes, std::span<const std::uint8_t> scales, std::int64_t rows,
                     std::int64_t cols, const SimdBlocks& blocks, Format values, void* to);

// The result of quantize(panel, q.element(), q.block(), recipe, offsets), into the codes and scales of q, whose memory
// is used again. Its shape is the panel's, and its scales are compact and E8M0.
void simd_quantize(const MatrixView& panel, std::span<const std::int64_t> offsets, const Recipe& recipe, int threads,
                   QuantizedTensor& q);

// The values of q, whose scales are compact, with the reference's NaN. `to`: rows * cols of them.
void simd_dequantize(const QuantizedTensor& q, std::span<const std::int64_t> offsets, Format values,
                     std::span<std::byte> to);

}  // namespace mxcheck
