#pragma once
// What the right answer is: block quantization and its inverse, written to be read.
//
// Shapes. The input is rows x cols. With expert offsets o_0 = 0 <= o_1 <= ... <= o_E = rows, blocks restart at every
// o_e, so that no block holds rows of two experts; an expert without rows has no blocks. Scales are row-major,
//   sum over experts of ceil(rows_e / block.rows)   by   ceil(cols / block.cols),
// the experts' scale rows following one another. A block cut short by an edge has the amax of what is in it. Codes
// have the input's shape and order for every block shape, column blocks included; one code a byte (E2M1 too), or one
// a uint16 (E5M6). Empty inputs have empty outputs.
//
// Formula: per block, amax over its elements, (byte, factor) = block_scale(recipe, amax), code = encode(x * factor);
// see numerics/recipe.h and OCP MX 1.0 section 6.3.
//
// Errors: Error{usage} for a shape, stride, format or offsets that make no sense or whose sizes overflow 63 bits;
// Error{input} for a NaN under NanPolicy::refuse. Threads change nothing but the time.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "numerics/recipe.h"
#include "reference/matrix.h"

namespace mxcheck {

struct Quantized {
  Format element = Format::e4m3;
  BlockShape block;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t scale_rows = 0;
  std::int64_t scale_cols = 0;
  std::vector<std::uint8_t> codes;     // rows * cols; empty for E5M6
  std::vector<std::uint16_t> codes16;  // rows * cols for E5M6; empty otherwise
  std::vector<std::uint8_t> scales;    // E8M0 bytes; empty for ScaleRule::fp32
  std::vector<float> scales_fp32;      // ScaleRule::fp32; empty otherwise
};

// Elements: e4m3, e5m2, e2m1, e2m3, e3m2, mxint8, e5m6.
Quantized quantize(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                   std::span<const std::int64_t> offsets = {});

// Row blocks (1 x n) and column blocks (n x 1) of one input; offsets apply to the column blocks.
struct DualQuantized {
  Quantized row;
  Quantized col;
};
DualQuantized quantize_dual(const MatrixView& input, Format element, std::int64_t n, const Recipe& recipe,
                            std::span<const std::int64_t> offsets = {});

// decode(code) * scale, exact, then rounded once to FP32 (nearest even, overflow to Inf). NaN is 0x7FC00000. A scale of
// 255, or a NaN float scale, makes the whole block NaN.
std::vector<float> dequantize(const Quantized& q, std::span<const std::int64_t> offsets = {});

// The same rounded once from the exact value to BF16; NaN is 0x7FC0.
std::vector<std::uint16_t> dequantize_bf16(const Quantized& q, std::span<const std::int64_t> offsets = {});

// Scale rows of blocks of block_rows rows under these offsets: the formula above.
std::int64_t count_scale_rows(std::int64_t rows, std::int64_t block_rows, std::span<const std::int64_t> offsets);

}  // namespace mxcheck
