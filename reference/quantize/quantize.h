#pragma once
// The reference for block quantization and dequantization; clarity before speed.
//
// Shapes. The input is rows x cols. With expert offsets o_0 = 0 <= o_1 <= ... <= o_E = rows, blocks restart at every
// o_e, so that no block holds rows of two experts; an expert without rows has no blocks. Scales are row-major,
//   sum over experts of ceil(rows_e / block.rows)   by   ceil(cols / block.cols),
// the experts' scale rows following one another. A block cut short by an edge has the amax of what is in it. Codes
// have the input's shape and order for every block shape, column blocks included. Empty inputs have empty outputs.
//
// Formula: per block, amax over its elements, (byte, factor) = block_scale(recipe, amax), code = encode(x * factor);
// see numerics/scale/recipe.h and OCP MX 1.0 section 6.3.
//
// Errors: Error{usage} for a shape, stride, format or offsets that are invalid or whose sizes overflow 63 bits;
// Error{input} for a NaN under NanPolicy::refuse, the first in row-major order; Error{environment} without memory.
// Threads (0: the machine's) change nothing but the time; they share out rows of blocks.
//
//   const QuantizedTensor q = quantize(x, Format::e4m3, {1, 32}, recipe_named("rceil"));
//   const std::vector<float> back = dequantize(q);
//
// Two levels of scales (ScaleRule::e4m3, numerics/scale/two_level.h): the outer scale is of the whole matrix, experts
// included, or of each row, from its amax or given; the block's scale is E4M3. The outer scale is the second level of
// the result.
//
//   const QuantizedTensor q = quantize(x, Format::e2m1, {1, 16}, any_recipe_named("nvfp4"));
//   const QuantizedTensor r = quantize(x, Format::e2m1, {1, 16}, any_recipe_named("nvfp4"), {.outer_of_rows = true});

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "numerics/scale/recipe.h"
#include "reference/common/matrix.h"
#include "reference/quantize/quantized_tensor.h"

namespace mxcheck {

// Error{usage} for a format that is none of kQuantizedFormats: e4m3, e5m2, e2m1, e2m3, e3m2, mxint8, e5m6.
void check_quantized_format(Format element);

QuantizedTensor quantize(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                         std::span<const std::int64_t> offsets = {}, int threads = 0);

// The magnitudes that a tensor's amax is found from, by a recipe's TensorAmax.
struct Magnitudes {
  float finite = 0;  // the largest
  bool has_inf = false;
  bool has_nan = false;

  void add(float x);
  void add(const Magnitudes& other);
  [[nodiscard]] float amax(TensorAmax policy) const;
};
Magnitudes magnitudes_of(const MatrixView& input, int threads = 0);

// Inputs of some recipes beside the matrix.
struct QuantizeExtras {
  bool outer_of_rows = false;            // two levels: an outer scale for each row; blocks must have one row
  std::span<const float> outer;          // two levels: the outer scales as they are stored, given: one, or one a row
  std::span<const std::uint32_t> words;  // stochastic rounding: a random word for each element, row-major
  const Magnitudes* whole = nullptr;     // two levels: of the matrix that the input is a part of, in place of its own
};

// The words of stochastic rounding, of the element with this number, under a key and two words of a counter: one of its
// own, the first output of Philox under (number, counter). Or by bytes, one call for 16 elements and one word for four:
// output number % 16 / 4 under (number / 16, counter), of which elements 0 to 3 have the bytes 0, 2, 1, 3 (byte 0 is
// the lowest), on top of a word of zeros. Under the 256 bytes a fraction f is rounded away from zero floor(256 f)
// times.
std::uint32_t element_word(std::uint64_t key, std::uint64_t number, const std::array<std::uint32_t, 2>& counter);
std::uint32_t element_byte_word(std::uint64_t key, std::uint64_t number, const std::array<std::uint32_t, 2>& counter);

// The same with these. Error{usage} for extras that the recipe has no use for, other numbers of them, a stochastic
// recipe without words, and an outer scale given that is no positive finite number (an amax may be 0).
QuantizedTensor quantize(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe,
                         const QuantizeExtras& extras, std::span<const std::int64_t> offsets = {}, int threads = 0);

// Row blocks (1 x n) and column blocks (n x 1) of one input; offsets apply to the column blocks. n of 0 stands for
// whole rows and whole columns.
struct DualQuantized {
  QuantizedTensor row;
  QuantizedTensor col;
};
DualQuantized quantize_dual(const MatrixView& input, Format element, std::int64_t n, const Recipe& recipe,
                            std::span<const std::int64_t> offsets = {}, int threads = 0);

// decode(code) * scale, exact, then rounded once to FP32 (nearest even, overflow to Inf). NaN is 0x7FC00000. A scale of
// 255, or a NaN float scale, makes the whole block NaN. Offsets are those of quantize.
// Errors: Error{usage} where the vectors' sizes do not fit the shapes; Error{input} for a code wider than its format.
std::vector<float> dequantize(const QuantizedTensor& q, std::span<const std::int64_t> offsets = {}, int threads = 0);

// Error{usage} unless every level's scales and the codes have the sizes that the shapes, blocks and offsets make.
void check_quantized(const QuantizedTensor& q, std::span<const std::int64_t> offsets = {});

// The same rounded once from the exact value to BF16; NaN is 0x7FC0.
std::vector<std::uint16_t> dequantize_bf16(const QuantizedTensor& q, std::span<const std::int64_t> offsets = {},
                                           int threads = 0);

// Scale rows of blocks of block_rows rows under these offsets: the formula above. 0 block rows: one scale row for each
// expert that has rows.
std::int64_t count_scale_rows(std::int64_t rows, std::int64_t block_rows, std::span<const std::int64_t> offsets);

// The same expert by expert (one entry without offsets): what reference/quantize/scale_layout.h asks for.
std::vector<std::int64_t> count_scale_rows_by_expert(std::int64_t rows, std::int64_t block_rows,
                                                     std::span<const std::int64_t> offsets);
std::vector<std::int64_t> count_scale_rows_by_expert(const QuantizedTensor& q, std::span<const std::int64_t> offsets);

// The first row of every row of blocks, and rows at the end: scale row i covers rows [starts[i], starts[i + 1]).
std::vector<std::int64_t> block_row_starts(std::int64_t rows, std::int64_t block_rows,
                                           std::span<const std::int64_t> offsets);

namespace detail {

// Error{input} of NanPolicy::refuse, for the NaN at this place of the matrix.
[[noreturn]] void refuse_nan(const Recipe& recipe, std::int64_t row, std::int64_t col);

// quantize for recipes of two levels: checked arguments, and `out` of the result's sizes with one level.
void quantize_two_levels(const MatrixView& input, const Recipe& recipe, const QuantizeExtras& extras,
                         std::span<const std::int64_t> offsets, int threads, QuantizedTensor& out);

}  // namespace detail

}  // namespace mxcheck
