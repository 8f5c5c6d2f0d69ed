#pragma once
// What one recipe does to one tensor: the error, flushed and saturated elements, and the scales used.
//
// The error is that of numerics/measure/measures.h between the input and dequantize(quantize(input)), in FP32, element
// by element in row-major order. Blocks are those of quantize (reference/quantize/quantize.h), those at an edge too.
//
// NaN and Inf follow the measures' rules: a NaN or Inf that quantization moves or spreads makes the three measures NaN,
// and the counts in `error` say why. Threads (0: the machine's) change nothing but the time.
//
// Example: study(view, Format::e4m3, {1, 32}, recipe_named("rceil")).error.sqnr_db
//
// Errors: those of quantize; Error{usage} for a matrix without elements.
// Memory: about 24 bytes an element while it runs. Does not promise: a verdict (docs/numerics.md).

#include <array>
#include <cstdint>

#include "numerics/measure/measures.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

struct Study {
  ErrorMeasures error;
  std::uint64_t nonzero = 0;         // inputs that are neither zero nor NaN; Inf counts
  double zeroed_share = 0;           // error.flushed of the finite nonzero inputs; 0 where there are none
  std::uint64_t blocks = 0;          // all of them
  std::uint64_t zero_blocks = 0;     // every input is a zero
  std::uint64_t dead_blocks = 0;     // some inputs are nonzero, and all of those have the code of a zero
  std::uint64_t clamped_blocks = 0;  // 0 < amax < recipe.amax_min
  float amax_lowest = 0;             // over the blocks with a nonzero amax; 0 where there are none
  float amax_highest = 0;
  std::uint64_t distinct_scales = 0;
  // Blocks by E8M0 byte. FP32 scales count under their exponent field: the byte of the power of two at or below them.
  std::array<std::uint64_t, 256> scales{};
};

Study study(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe, int threads = 0);

// Statistics of the input.
struct InputFacts {
  std::uint64_t count = 0;
  std::uint64_t zeros = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  float largest = 0;  // magnitude of the largest and the smallest finite nonzero element; 0 where there are none
  float smallest = 0;
};
InputFacts input_facts(const MatrixView& input);

// The input rounded to BF16 (nearest even), by the same measures: what a recipe is compared with.
ErrorMeasures study_bf16(const MatrixView& input);

}  // namespace mxcheck
